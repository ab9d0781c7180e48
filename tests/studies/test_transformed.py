"""Arms after transforms, against the reference arm without a transform: planted differences, words of the verdict."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isoscope.base.built_in import TRANSFORMS
from isoscope.platform.statistics.paired import paired_t
from isoscope.studies import transformed
from isoscope.studies.geometry.checkpoint_views import KINDS

EFFECTS = {"none": 0.0, "centred": 0.0, "all_but_the_top": 0.1, "whitened": 0.3, "standardised": -0.2}
AGAINST = {"none": "none", "all": "none"}


def table(seeds: int = 4) -> pd.DataFrame:
    """STS by arm, seed and transform: whitening adds .3, the penalty .05 at the last layer of the chosen snapshot."""
    rows = []
    for arm, seed, name, depth, best in product(AGAINST, range(seeds), TRANSFORMS, (1, 2), (False, True)):
        noise = np.random.default_rng(seed).normal() / 50 + np.random.default_rng((seed, len(name))).normal() / 500
        value = 0.4 + EFFECTS[name] + 0.05 * (arm == "all") + noise if best and depth == 2 else 9.0
        about = {"arm": arm, "seed": seed, "transform": name, "layer": depth, "best": best, "step": 8 if best else 4}
        rows.append(about | {"vectors": "pairs_mean", "metric": "sts", "value": value, "n": 99, "fitted_on": 50})
    return pd.DataFrame(rows).assign(low=np.nan, high=np.nan, note=None)


def test_each_arm_after_each_transform_is_paired_with_the_reference_without_a_transform(tmp_path: Path) -> None:
    given = table()
    found = transformed.compared(given, AGAINST, confidence=0.95, power=0.8, margin=0.01)
    assert len(found) == 2 * len(TRANSFORMS)
    row = found.set_index(["arm", "transform"])
    assert row.loc[("none", "none"), "verdict"] == "reference"
    last = given[(given["layer"] == 2) & given["best"]].set_index(["arm", "transform", "seed"])["value"].sort_index()
    pairs = (last["all", "whitened"] - last["none", "none"]).tolist()
    test = paired_t(pairs, confidence=0.95)
    assert test.interval is not None
    own = row.loc[("all", "whitened")]
    assert own[["difference", "low", "high"]].tolist() == pytest.approx([test.mean, *test.interval])
    assert own["mean"] == pytest.approx(last["all", "whitened"].mean())
    assert own["sd"] == pytest.approx(last["all", "whitened"].std(ddof=1))
    assert row.loc[("none", "whitened"), "difference"] == pytest.approx(0.3, abs=0.01)
    assert row.loc[("none", "whitened"), "verdict"] == "holds"
    few = transformed.compared(table(2), AGAINST, confidence=0.95, power=0.8, margin=0.01)
    assert {*few["verdict"]} == {"reference", "under-powered"}
    for (arm, seed), rows in given.groupby(["arm", "seed"]):
        (tmp_path / f"{arm}{seed}").mkdir()
        rows.drop(columns=["arm", "seed"]).to_parquet(tmp_path / f"{arm}{seed}/transformed.parquet")
    folders = {(arm, seed): tmp_path / f"{arm}{seed}" for arm in AGAINST for seed in range(4)}
    assert len(transformed.together(folders)) == len(given)
    assert transformed.together({("none", 0): tmp_path}).empty


def test_two_arms_whose_vectors_score_nothing_are_not_called_alike() -> None:
    given = table()
    found = transformed.compared(
        given.assign(value=given["value"] / 1e4), AGAINST, confidence=0.95, power=0.8, margin=0.01
    )
    assert {*found["verdict"]} == {"reference", "no verdict"}
    angles = given.assign(value=given["value"] / 1e4, metric="avg_sim")
    other = transformed.compared(angles, AGAINST, confidence=0.95, power=0.8, margin=0.01)
    assert "no verdict" not in {*other["verdict"]}, "a mean cosine has no chance level"


@pytest.mark.parametrize("best", [True, False], ids=["the chosen snapshot", "every snapshot"])
def test_a_collapsed_cell_is_replaced_by_no_other_and_its_arm_has_no_test(best: bool) -> None:
    """A seed without a number would else leave the others, which the outcome has selected."""
    given = table()
    gone = (given["arm"] == "all") & (given["seed"] == 3) & (given["layer"] == 2) & (given["best"] | (not best))
    given["value"] = given["value"].mask(gone)
    (shown,) = transformed.at_the_end(given)
    assert 9.0 not in {*shown["value"]}
    found = transformed.compared(given, AGAINST, confidence=0.95, power=0.8, margin=0.01).set_index("arm")
    assert {*found.loc["all", "seeds"]} == {3}
    assert found.loc["all", "low"].isna().all()
    assert {*found.loc["all", "verdict"]} == {"under-powered"}
    assert "holds" in {*found.loc["none", "verdict"]}, "arms with all numbers keep their tests"
    without = given.assign(value=given["value"].mask(given["arm"] == "none"))
    few = transformed.compared(without, AGAINST, confidence=0.95, power=0.8, margin=0.01)
    assert (few["verdict"] == "reference").sum() == 1, "a row without a pair is no reference"


def test_without_a_chosen_snapshot_the_last_counts() -> None:
    given = table()
    (rows,) = transformed.at_the_end(given.assign(best=given["best"] & (given["arm"] == "all")))
    assert rows.groupby("arm")["step"].unique().map(list).to_dict() == {"all": [8], "none": [8]}
    (chosen,) = transformed.at_the_end(given.assign(best=~given["best"]))
    assert {*chosen["step"]} == {4}


def test_every_kind_of_vectors_has_its_words() -> None:
    assert {*KINDS} <= {*transformed.VECTORS}
    given = table().assign(vectors="given")
    (rows,) = transformed.view().table({"transformed": given})
    assert "the given vectors" in transformed._caption(rows)


def test_the_figure_has_a_row_per_transform_and_the_table_the_verdicts() -> None:
    view = transformed.view()
    (rows,) = view.table({"transformed": table()})
    assert 9.0 not in {*rows["value"]}, "another layer or snapshot"
    drawn = view.form.drawn(rows)
    assert [*dict.fromkeys(drawn["transform"])] == [*TRANSFORMS]
    assert {*drawn["seeds"]} == {4}
    assert "n = 99; fitted on 50 points" in transformed._caption(rows)
    compared = transformed.compared(table(), AGAINST, confidence=0.95, power=0.8, margin=0.01)
    heads, *lines = transformed.COMPARISON.form(compared)
    assert [text for text, _ in heads][-1] == "Verdict"
    assert len(lines) == 2 * len(TRANSFORMS)
