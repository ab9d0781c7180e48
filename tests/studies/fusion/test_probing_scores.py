"""The figure of probes shows the given scores, baselines and chance, and marks missing scores."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from isoscope.platform.figures.style import ARM_COLOURS, to_svg
from isoscope.studies.fusion.probing_scores import learning_curves, probing_curves

STEPS = (0, 1, 4, 16, 64, 256)


def made(arms: tuple[str, ...] = ("additive", "conv2d"), seeds: int = 3, layers: int = 3) -> pd.DataFrame:
    """A probing table; layer 0 of `additive` is one vector, of `conv2d` few; the chosen step is 64, of seed 2 256."""
    random = np.random.default_rng(0)
    rows = [
        {
            "arm": arm,
            "seed": seed,
            "snapshot": "random" if step is None else f"step-{step}",
            "step": step,
            "best": step == (256 if seed == 2 else 64),
            "layer": layer,
            "vectors": "first",
            "task": task,
            "metric": "r2" if task == "tree depth" else "accuracy",
            "n": 100,
            "d": 8,
            "score": np.nan if (arm, layer) == ("additive", 0) else random.uniform(0.4, 1.0),
            "chance": np.nan if task == "tree depth" else 0.55,
            "distinct": {("additive", 0): 1, ("conv2d", 0): 6}.get((arm, layer), 100),
            "degenerate": (arm, layer) == ("additive", 0),
        }
        for arm in arms
        for seed in range(seeds)
        for step in (*STEPS, None)
        for layer in range(layers)
        for task in ("label", "tree depth")
    ]
    return pd.DataFrame(rows).astype({"step": "Int64"})


def floors(arms: tuple[str, ...] = ("additive", "conv2d")) -> pd.DataFrame:
    scores = {"majority class": 0.55, "TF-IDF": 0.71, "bag": 0.72}
    rows = [
        {
            "arm": arm,
            "seed": seed,
            "baseline": name,
            "task": "label",
            "score": score + 0.01 * seed + 0.1 * (arm == "conv2d"),
        }
        for arm in arms
        for seed in range(2)
        for name, score in scores.items()
    ]
    return pd.DataFrame(rows)


def drawn(axes: Any, gid: str) -> list[Any]:
    return [line for line in axes.lines if line.get_gid() == gid]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_lines_are_means_over_seeds_by_phase() -> None:
    table = made()
    figure = probing_curves(table)
    names = ["update 0", "update 1", "update 4", "update 16", "chosen epoch", "random twin"]
    assert legend(figure)[:6] == names
    label = table[table["task"] == "label"]
    for axes, arm in zip(figure.axes, ("additive", "conv2d"), strict=True):
        assert axes.get_title(loc="left") == f"{arm}, n = 3 seeds"
        own = label[label["arm"] == arm]
        phases = [own[own["step"] == step] for step in (0, 1, 4, 16)] + [own[own["best"]], own[own["step"].isna()]]
        areas = [area for area in axes.collections if isinstance(area, PolyCollection)]
        for index, (line, area, phase) in enumerate(zip(drawn(axes, "phase"), areas, phases, strict=True)):
            scores = phase.groupby("layer")["score"]
            np.testing.assert_allclose(line.get_xdata(), [0, 1, 2])
            np.testing.assert_allclose(line.get_ydata(), scores.mean())
            highest = min((scores.mean() + scores.std()).max(), 1.0)  # no accuracy is above 1
            assert max(path.vertices[:, 1].max() for path in area.get_paths()) == pytest.approx(highest)
            if index < 5:
                assert to_hex(line.get_color()) == ARM_COLOURS[index]


def test_chance_and_baselines_are_lines_with_letters() -> None:
    figure = probing_curves(made(), floors())
    assert legend(figure)[-3:] == ["a: majority class", "b: TF-IDF", "c: bag"]
    for axes, more in zip(figure.axes, (0.0, 0.1), strict=True):
        found = [line.get_ydata()[0] for line in drawn(axes, "baseline")]
        np.testing.assert_allclose(found, np.array([0.555, 0.715, 0.725]) + more)
        assert [line.get_ydata()[0] for line in drawn(axes, "chance")] == [0.55]
        letters = {text.get_text(): text.get_position()[1] for text in axes.texts}
        low, high = axes.get_ylim()
        assert list(letters) == ["a", "b", "c"]
        assert letters["c"] - letters["b"] >= 0.04 * (high - low)  # they would touch
        assert letters["a"] == pytest.approx(found[0])
        assert (letters["b"] + letters["c"]) / 2 == pytest.approx((found[1] + found[2]) / 2)


def test_no_curve_leaves_the_axis_that_the_arms_share() -> None:
    """The first panel ended the scaling, so a lower curve of the last arm was cut."""
    table = made()
    table.loc[table["arm"] == "conv2d", "score"] = 0.2
    for axes in probing_curves(table, floors()).axes:
        assert axes.get_ylim()[0] < 0.2


def test_permuted_labels_are_a_line_where_they_were_probed() -> None:
    assert not drawn(probing_curves(made()).axes[0], "permuted")
    figure = probing_curves(made().assign(permuted=0.47))
    assert [line.get_ydata()[0] for line in drawn(figure.axes[0], "permuted")] == [pytest.approx(0.47)]
    assert "labels permuted within folds" in legend(figure)


def test_layers_without_a_score_and_with_few_vectors_are_marked() -> None:
    figure = probing_curves(made())
    additive, conv2d = figure.axes
    assert [list(line.get_xdata()) for line in drawn(additive, "degenerate")] == [[0]]
    assert not drawn(conv2d, "degenerate")
    assert np.isnan(drawn(additive, "phase")[0].get_ydata()[0])
    hollow = [line for line in conv2d.lines if line.get_markerfacecolor() == "none" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in hollow[:5]] == [[0]] * 5
    assert {"all vectors equal: no score", "few distinct vectors (less than 1 in 10)"} <= set(legend(figure))


def test_phases_can_be_named() -> None:
    table = made()
    phase = table["step"].map({0: "unstructured", 64: "separated"}, na_action="ignore")
    assert legend(probing_curves(table.assign(phase=phase)))[:3] == [
        "unstructured",
        "separated",
        "chance: the largest class",
    ]
    with pytest.raises(ValueError, match="no phase to draw"):
        probing_curves(table.assign(phase=None))


def test_a_run_with_many_snapshots_in_a_phase_counts_once() -> None:
    table = made(arms=("conv2d",))
    table = table[~((table["seed"] > 0) & table["step"].isin((1, 4, 16)))]  # as where probes skip snapshots
    phase = table["step"].map(lambda step: "trained" if step > 0 else None, na_action="ignore")
    (axes,) = probing_curves(table.assign(phase=phase)).axes
    own = table[(table["task"] == "label") & (table["step"] > 0)]
    by_run = own.groupby(["layer", "seed"])["score"].mean().groupby("layer")
    np.testing.assert_allclose(drawn(axes, "phase")[0].get_ydata(), by_run.mean())
    assert axes.get_title(loc="left") == "conv2d, n = 3 seeds", "a probe left out is no run that stopped"


def test_values_have_another_axis_and_no_chance() -> None:
    figure = probing_curves(made(), floors(), task="tree depth")
    assert figure.axes[0].get_ylabel().startswith("R²")
    assert not drawn(figure.axes[1], "chance")
    assert not drawn(figure.axes[1], "baseline")


def test_a_run_of_one_snapshot_is_drawn() -> None:
    table = made(seeds=1)
    alone = table[table["step"] == 64]
    assert legend(probing_curves(alone))[0] == "chosen epoch"


def test_equal_tables_give_equal_pictures() -> None:
    assert to_svg(probing_curves(made(), floors())) == to_svg(probing_curves(made(), floors()))
    assert to_svg(probing_curves(made())) != to_svg(probing_curves(made(seeds=2)))


def test_a_learning_curve_is_the_mean_over_seeds_by_sentences() -> None:
    table = pd.DataFrame(
        [
            {"arm": arm, "seed": seed, "vectors": "first", "trained": trained, "score": trained / 400 + 0.01 * seed}
            for arm in ("additive", "fft")
            for seed in range(3)
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
