"""The figure of probes shows the given scores, baselines and chance, and marks missing scores."""

import numpy as np
import pandas as pd
import pytest

from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.probing_scores import EQUAL, HOLLOW, LEARNING, PROFILE

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


def of(probing: pd.DataFrame, baselines: pd.DataFrame, task: str = "label") -> pd.DataFrame:
    found = PROFILE.drawn(probing[probing["task"] == task], baselines)
    assert to_svg(PROFILE(probing[probing["task"] == task], baselines))
    return found


def test_lines_are_means_over_seeds_by_phase() -> None:
    table = made()
    found = of(table, floors()[:0])
    names = ["update 0", "update 1", "update 4", "update 16", "chosen epoch", "random twin"]
    assert sorted(found["line"].unique()) == sorted(names)
    label = table[table["task"] == "label"]
    for arm in ("additive", "conv2d"):
        own = label[label["arm"] == arm]
        phases = [own[own["step"] == step] for step in (0, 1, 4, 16)] + [own[own["best"]], own[own["step"].isna()]]
        for name, phase in zip(names, phases, strict=True):
            scores = phase.groupby("layer")["score"]
            rows = found[(found["arm"] == arm) & (found["line"] == name)]
            np.testing.assert_allclose(rows["score"], scores.mean())
            np.testing.assert_allclose(rows["high"], (scores.mean() + scores.std()).clip(upper=1.0))
    assert found["chance"].to_numpy() == pytest.approx(0.55)
    assert "permuted" not in found


def test_each_baseline_is_a_line_of_its_own_across_the_layers() -> None:
    found = of(made().assign(permuted=0.47), floors())
    kept = found[found["kind"] == "baseline"]
    means = floors().groupby(["arm", "baseline"])["score"].mean()
    assert len(kept) == 2 * len(means)
    for row in kept.itertuples():
        assert row.score == pytest.approx(means[row.arm, row.line])
    assert set(kept["layer"]) == {0, 2}
    assert found.loc[found["kind"] == "probe", "permuted"].to_numpy() == pytest.approx(0.47)


def test_layers_without_a_score_and_with_few_vectors_are_marked() -> None:
    found = of(made(), floors())
    gaps, marks = (found[found[name].notna()][["arm", "layer"]].drop_duplicates() for name in ("gap", "mark"))
    assert gaps.to_numpy().tolist() == [["additive", 0]]
    assert marks.to_numpy().tolist() == [["conv2d", 0]]
    assert found.loc[found["gap"].notna(), "score"].isna().all()
    figure = PROFILE(made()[lambda rows: rows["task"] == "label"], floors())
    told = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {EQUAL, HOLLOW, "chance: the largest class"} <= set(told)


def test_phases_can_be_named_and_a_run_with_many_snapshots_in_a_phase_counts_once() -> None:
    table = made(arms=("conv2d",))
    table = table[~((table["seed"] > 0) & table["step"].isin((1, 4, 16)))]  # as where probes skip snapshots
    phase = table["step"].map(lambda step: "trained" if step > 0 else None, na_action="ignore")
    found = of(table.assign(phase=phase), floors())
    own = table[(table["task"] == "label") & (table["step"] > 0)]
    by_run = own.groupby(["layer", "seed"])["score"].mean().groupby("layer")
    np.testing.assert_allclose(found.loc[found["line"] == "trained", "score"], by_run.mean())
    with pytest.raises(ValueError, match="no phase to draw"):
        of(table.assign(phase=None), floors())


def test_values_have_no_chance_and_no_lower_end() -> None:
    found = of(made(), floors(), task="tree depth")
    assert found["chance"].isna().all()
    assert set(found["kind"]) == {"probe"}
    assert set(of(made(seeds=1)[lambda rows: rows["step"] == 64], floors()[:0])["line"]) == {"chosen epoch"}


def test_a_learning_curve_is_the_mean_over_seeds_by_sentences() -> None:
    table = pd.DataFrame(
        [
            {"arm": arm, "seed": seed, "vectors": "first", "trained": trained, "score": trained / 400 + 0.01 * seed}
            for arm in ("additive", "fft")
            for seed in range(3)
            for trained in (50, 100, 200)
        ]
    ).assign(chance=0.5, n=250, d=64)
    found = LEARNING.form.drawn(table)  # type: ignore[attr-defined]
    np.testing.assert_allclose(found["score"], found["trained"] / 400 + 0.01)
    assert found["seeds"].tolist() == [3] * 6
    assert to_svg(LEARNING.form(table)) == to_svg(LEARNING.form(table))
