"""The embedding space: every token in a plane, the evidence behind the map, and each hidden dimension."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from isoscope.platform.figures.style import ARM_COLOURS, to_svg
from isoscope.studies.fusion.embedding_space import PANELS, READ_BACK, embedding_evidence, hidden_dimensions, scatter
from isoscope.studies.view import pictures

ARMS = ("additive", "conv2d", "fft")


def points(n: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    parts = [pd.DataFrame({"arm": arm, "x": rng.normal(size=n), "y": rng.normal(size=n)}) for arm in ARMS]
    return pd.concat(parts).assign(position=rng.integers(0, 9, 3 * n))


def of_arm(axes: Axes, index: int) -> np.ndarray:
    """Coordinates of the points in the arm's colour, sorted."""
    found = [one.get_offsets() for one in axes.collections if to_hex(one.get_facecolors()[0]) == ARM_COLOURS[index]]
    return np.sort(np.concatenate(found), axis=0)


def limits(figure: Figure) -> list[float]:
    return [float(np.ptp(limit)) for limit in (figure.axes[0].get_xlim(), figure.axes[0].get_ylim())]


def test_every_token_is_drawn_in_its_arms_colour() -> None:
    made = points()
    figure = scatter(made, method="t-SNE")
    for index, arm in enumerate(ARMS):
        own = made[made["arm"] == arm][["x", "y"]].to_numpy()
        np.testing.assert_array_equal(of_arm(figure.axes[0], index), np.sort(own, axis=0))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [f"{arm}, n = 30 tokens" for arm in ARMS]
    assert sum(len(one.get_offsets()) for one in figure.axes[1].collections) == 90
    assert limits(figure)[0] == pytest.approx(limits(figure)[1])


def test_one_scale_for_positions() -> None:
    made = points()
    axes = scatter(made, method="t-SNE").axes[1]
    shades = {to_hex(colour) for one in axes.collections for colour in one.get_facecolors()}
    assert len(shades) == made["position"].nunique()


def test_ticks_are_off_for_tsne_alone() -> None:
    assert len(scatter(points(), method="t-SNE").axes[0].get_xticks()) == 0
    axes = scatter(points(), method="PCA").axes[0]
    assert len(axes.get_xticks()) > 0
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("First component", "Second component")


def test_pca_is_never_drawn_from_tsne_coordinates() -> None:
    made = points().assign(pc1=lambda rows: 5 * rows["x"], pc2=lambda rows: rows["y"] - 1)
    own = made[made["arm"] == "fft"][["pc1", "pc2"]].to_numpy()
    np.testing.assert_array_equal(of_arm(scatter(made, method="PCA").axes[0], 2), np.sort(own, axis=0))


def test_without_positions_there_is_one_panel() -> None:
    assert len(scatter(points().drop(columns="position"), method="PCA").axes) == 1
    assert len(scatter(points().assign(position=np.nan), method="PCA").axes) == 1


TWO, SEEDS = ("additive", "fft"), (0, 1, 2)


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
            for arm in TWO
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
        assert len(chances) == len(TWO)
        assert all(np.allclose(line.get_xdata(), 0.1) for line in chances)
        assert axes.get_xlim() == (-0.03, 1.03)
    assert to_svg(figure) == to_svg(embedding_evidence(neighbours, decoding))


D = 40


def dimensions(arms: tuple[str, ...] = ("additive", "fft"), seeds: tuple[int, ...] = (0, 1)) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    parts = []
    for arm in arms:
        for seed in seeds:
            for step in (0, 8):
                mean, sd = rng.normal(size=D), rng.uniform(0.5, 1, size=D)
                if step == 8:
                    mean[[3, 7]] = 9.0, -8.0
                facts = {"step": step, "best": step == 8, "arm": arm, "seed": seed, "n": 50, "dimension": np.arange(D)}
                parts.append(pd.DataFrame({**facts, "mean": mean, "sd": sd, "outlier": abs(mean) > 6}))
    return pd.concat(parts, ignore_index=True)


def line(axes: Axes, kind: str) -> np.ndarray:
    (found,) = [one for one in axes.lines if one.get_gid() == kind]
    return np.array(found.get_data(), float)


def test_each_dimension_of_the_first_run_is_drawn() -> None:
    made = dimensions()
    panels = iter(hidden_dimensions(made).axes)
    for arm in ("additive", "fft"):
        for step in (0, 8):
            axes, own = next(panels), made[(made["arm"] == arm) & (made["step"] == step) & (made["seed"] == 0)]
            np.testing.assert_array_equal(line(axes, "mean"), [own["dimension"], own["mean"]])
            heights = axes.collections[0].get_paths()[0].vertices[:, 1]
            np.testing.assert_allclose(heights.max(), (own["mean"] + own["sd"]).max())


def test_every_dimension_is_as_wide_as_the_next() -> None:
    made = dimensions(arms=("fft",), seeds=(0,))
    axes = hidden_dimensions(made).axes[0]
    edges = np.unique(axes.collections[0].get_paths()[0].vertices[:, 0])
    np.testing.assert_array_equal(edges, np.arange(D + 1) - 0.5)


def test_panels_share_one_range_that_holds_everything() -> None:
    made = dimensions()
    ((low, high),) = {axes.get_ylim() for axes in hidden_dimensions(made).axes}
    shown = made[made["seed"] == 0]
    assert low < (shown["mean"] - shown["sd"]).min()
    assert high > (shown["mean"] + shown["sd"]).max()


def test_outliers_are_marked_and_named() -> None:
    first, chosen = hidden_dimensions(dimensions(arms=("fft",), seeds=(0,))).axes
    np.testing.assert_array_equal(line(chosen, "outliers"), [[3, 7], [9.0, -8.0]])
    assert [text.get_text() for text in chosen.texts] == ["3", "7", "n = 50 tokens, outliers: 2"]
    assert [text.get_text() for text in first.texts] == ["n = 50 tokens, no outlier"]


def test_titles_say_which_run_and_when() -> None:
    titles = [axes.get_title(loc="left") for axes in hidden_dimensions(dimensions(arms=("fft",))).axes]
    assert titles == ["fft, seed 0, first snapshot (update 0)", "fft, seed 0, chosen epoch (update 8)"]


def test_equal_tables_give_equal_bytes() -> None:
    assert to_svg(hidden_dimensions(dimensions())) == to_svg(hidden_dimensions(dimensions()))
    assert to_svg(scatter(points(), method="t-SNE")) == to_svg(scatter(points(), method="t-SNE"))


def table() -> pd.DataFrame:
    rows = []
    for number, (arm, seed) in enumerate((arm, seed) for arm in ("additive", "fft") for seed in (0, 1, 2)):
        for step, best in ((0, False), (9, True)):
            for layer, part in enumerate(("normed", "layer 1", "layer 2")):
                for read in ("word", "position"):
                    rate = 1 - 0.1 * layer - 0.01 * number - 0.3 * (step == 0) - 0.05 * (read == "position")
                    who = {"arm": arm, "seed": seed, "step": step, "best": best, "snapshot": f"step-{step}"}
                    rows.append({**who, "part": part, "read": read, "rate": rate, "control": 0.05})
            rows.append({**who, "part": "fused", "read": "word", "rate": 0.0, "control": 0.0})
    return pd.DataFrame(rows).astype({"step": "Int64"})


def test_lines_are_means_over_seeds_at_the_chosen_epoch() -> None:
    (picture,) = pictures([READ_BACK], {"decoding": table()})
    figure = picture.figure()
    for axes, lower in zip(figure.axes, (0.0, 0.05), strict=True):
        first, second, control = axes.lines
        np.testing.assert_array_equal(first.get_xdata(), [0, 1, 2])
        assert first.get_ydata() == pytest.approx(0.99 - lower - 0.1 * np.arange(3))
        assert second.get_ydata() == pytest.approx(0.96 - lower - 0.1 * np.arange(3))
        assert control.get_ydata() == pytest.approx(0.05)
        assert axes.get_ylim() == (-0.03, 1.03)
    assert "additive, word 0.79" in picture.spoken
    to_svg(figure)


def test_without_layers_there_is_layer_zero_alone() -> None:
    block = table()[lambda rows: ~rows["part"].str.startswith("layer")]
    (picture,) = pictures([READ_BACK], {"decoding": block})
    assert all(list(line.get_xdata()) == [0] for axes in picture.figure().axes for line in axes.lines)
    assert not list(pictures([READ_BACK], {"decoding": block[block["part"] == "fused"]}))
