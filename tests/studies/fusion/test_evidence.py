"""Evidence for a map: four panels, means over seeds, and chance if it was computed."""

import numpy as np
import pandas as pd
import pytest

from isoscope.figures.style import to_svg
from isoscope.studies.fusion.evidence import PANELS, embedding_evidence
from isoscope.studies.fusion.learning_curves import learning_curves
from isoscope.studies.fusion.magnitudes import BINS, frequency_magnitudes

ARMS, SEEDS = ("additive", "fft"), (0, 1, 2)


def rows(column: str, kinds: tuple[str, ...], chance: str) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {
                "arm": arm,
                "seed": seed,
                "step": step,
                "best": step == 8,
                "part": part,
                column: kind,
                "rate": draw.uniform(0.3, 0.9),
                chance: 0.1,
            }
            for arm in ARMS
            for seed in SEEDS
            for step in (0, 8, None)
            for part in ("fused", "normed")
            for kind in kinds
        ]
    ).astype({"step": "Int64"})


def test_each_panel_shows_the_first_and_the_chosen_snapshot_beside_chance() -> None:
    neighbours = rows("neighbours", ("same word", "same position"), "chance")
    decoding = rows("read", ("word", "position"), "control")
    figure = embedding_evidence(neighbours, decoding)
    assert [axes.get_title() or axes.get_title(loc="left") for axes in figure.axes] == list(PANELS.values())
    own = neighbours.query("neighbours == 'same word' and part == 'normed' and arm == 'fft'")
    expected = [own[own["step"] == step]["rate"].mean() for step in (0, 8)]
    drawn = [
        line.get_xdata()[0] for line in figure.axes[0].lines if line.get_ydata()[0] == 1 and line.get_marker() == "s"
    ]
    assert drawn == pytest.approx(expected)
    for axes in figure.axes:
        chances = [line for line in axes.lines if line.get_gid() == "chance"]
        assert len(chances) == len(ARMS)
        assert all(np.allclose(line.get_xdata(), 0.1) for line in chances)
        assert axes.get_xlim() == (-0.03, 1.03)
    assert to_svg(figure) == to_svg(embedding_evidence(neighbours, decoding))


def test_two_studies_are_refused() -> None:
    neighbours = rows("neighbours", ("same word", "same position"), "chance").assign(study="one")
    neighbours.loc[0, "study"] = "other"
    with pytest.raises(ValueError, match="one study"):
        embedding_evidence(neighbours, rows("read", ("word", "position"), "control"))


def test_a_loud_frequency_stands_out_in_its_part_alone() -> None:
    frequency = np.arange(1, 97)
    parts = [
        pd.DataFrame(
            {
                "arm": arm,
                "seed": seed,
                "step": step,
                "best": step == 8,
                "part": part,
                "frequency": frequency,
                "magnitude": 1.0 + 5.0 * ((frequency > 92) & (part == "fused")),
            }
        )
        for arm in ARMS
        for seed in SEEDS
        for step in (0, 8)
        for part in ("word", "fused")
    ]
    word, fused = frequency_magnitudes(pd.concat(parts)).axes
    lines = [line for line in fused.lines if line.get_gid() in ("first", "chosen")]
    assert len(lines) == 4
    for line in lines:
        assert len(line.get_xdata()) == BINS
        assert line.get_ydata()[-1] == pytest.approx(6.0)
        assert np.allclose(line.get_ydata()[:-1], 1.0)
    assert all(np.allclose(line.get_ydata(), 1.0) for line in word.lines)


def test_a_learning_curve_is_the_mean_over_seeds_by_sentences() -> None:
    table = pd.DataFrame(
        [
            {"arm": arm, "seed": seed, "vectors": "first", "trained": trained, "score": trained / 400 + 0.01 * seed}
            for arm in ARMS
            for seed in SEEDS
            for trained in (50, 100, 200)
        ]
    ).assign(chance=0.5, n=250, d=64)
    (axes,) = learning_curves(table).axes
    drawn = [one.lines[0] for one in axes.containers]
    assert len(drawn) == 2
    for line in drawn:
        assert line.get_xdata().tolist() == [50, 100, 200]
        assert line.get_ydata() == pytest.approx(np.array([50, 100, 200]) / 400 + 0.01)
    assert "n = 250" in axes.get_title(loc="left")
    with pytest.raises(ValueError, match="'last'"):
        learning_curves(table, vectors="last")
