"""Tables and figures of hybrids: what is read, what predicts, what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.base.errors import InputError
from isoscope.platform.config.load import Configuration
from isoscope.platform.figures.pictures import pictures
from isoscope.platform.outputs import Output, Trained
from isoscope.platform.results.paired_comparison import Result, StudyRuns
from isoscope.studies.hybrids.comparison import Hybrids
from isoscope.studies.hybrids.tables import NEARNESS, NOT_TUNED, TUNED, predictors, tables
from isoscope.studies.hybrids.views import VIEWS
from isoscope.studies.hybrids.views import predictors as drawn
from struck_views import wrong

ROOT = Path(__file__).parents[3]
STARTS = ["identity", "procrustes", "ridge", "trained", "itself"]
SEEDS = (0, 1, 2)
FALLING = "rsa"  # against BLEU
OPTIONS: dict[str, Any] = {"aligned": "aligned", "tuned": "hybrid", "confidence": 0.95}


def output(folder: Path, arm: str, seed: int, study: str, params: dict[str, Any], step: int) -> Output:
    place = folder / study / arm / f"seed-{seed}"
    place.mkdir(parents=True)
    point = {"name": "test/loss", "value": 1.0, "step": step, "epoch": 1}
    (place / "metrics.jsonl").write_text(json.dumps(point) + "\n")
    name = f"{arm.removeprefix('alignment-').removeprefix('translation-').split('-')[0]} {seed}"
    run = Trained(study, arm, seed, task="t", digest=name, code="c", inputs={"start": name}, plugins={})
    return Output(place, run, (), "translation", params)


@pytest.fixture
def studies(tmp_path: Path) -> dict[str, StudyRuns]:
    """Starts that are nearer one after the other, and translate better in that order, by every measure but one."""
    aligned: dict[str, dict[int, Result]] = {}
    tuned: dict[str, dict[int, Result]] = {}
    items = np.arange(10)
    for place, start in enumerate(STARTS):
        arm = f"alignment-{start}"
        for seed in SEEDS:
            near = 0.1 + 0.2 * place + 0.01 * seed
            found = output(tmp_path, arm, seed, "aligned", {}, 100)
            values = dict.fromkeys(NEARNESS, near) | {FALLING: 1 - near, "n": 10}
            text = json.dumps({"before": values, "after": values})
            (found.folder / "alignment.json").write_text(text)
            aligned.setdefault(arm, {})[seed] = Result(found, {"loss": 1.0}, {}, items)
            for training, step in (("none", 0), ("all", 50)):
                name = f"translation-{start}-{training}"
                params = {"model": {"encoder": {"kind": "run", "study": "aligned", "arm": arm, "seed": "same"}}}
                bleu = {"bleu": 10.0 * place + seed + step / 10, "chrf": 20.0 + place}
                made = output(tmp_path, name, seed, "hybrid", params, step)
                tuned.setdefault(name, {})[seed] = Result(made, bleu, {}, items)
    return {"aligned": StudyRuns(aligned, {}), "hybrid": StudyRuns(tuned, {})}


def test_scores_are_by_start_and_training(studies: dict[str, StudyRuns]) -> None:
    found = tables(studies, **OPTIONS)
    scores = found["scores"].set_index(["start", "training", "score"])
    assert set(scores.index.unique("start")) == set(STARTS)
    assert scores.loc[("ridge", NOT_TUNED, "bleu"), "mean"] == pytest.approx(21.0)
    assert scores.loc[("ridge", TUNED, "bleu"), "mean"] == pytest.approx(26.0)
    one = scores.loc[("ridge", TUNED, "bleu")]
    assert one["high"] - one["mean"] == pytest.approx(4.303 / np.sqrt(3), rel=1e-3)  # t(2) · sd / √n, sd 1
    assert set(scores["n"]) == {len(SEEDS)}


def test_every_figure_survives_tables_without_numbers(
    studies: dict[str, StudyRuns], pytestconfig: pytest.Config
) -> None:
    every = pytestconfig.getoption("--exhaustive")
    assert wrong(VIEWS, tables(studies, **OPTIONS), exhaustive=every) == []


def test_a_measure_in_the_order_of_bleu_predicts_it(studies: dict[str, StudyRuns]) -> None:
    both = tables(studies, **OPTIONS)["predictors"]
    assert [len(rows) for _, rows in both.groupby("when")] == [2 * len(NEARNESS)] * 2
    found = both[both["when"] == "after"].set_index(["measure", "training"])
    assert set(found["n"]) == {len(STARTS)}, "the unit is the start, not the run"
    for (measure, _), row in found.drop(columns="when").iterrows():
        assert row["rho"] == pytest.approx(-1.0 if measure == FALLING else 1.0)
        assert row["p"] == pytest.approx(2 / 120, abs=0.006)  # two of 5! orders
        assert row["p_holm"] == pytest.approx(min(1.0, 16 * found["p"].min()), abs=0.1)


def test_a_training_with_fewer_seeds_is_correlated_over_these(studies: dict[str, StudyRuns]) -> None:
    """Seed 0 rises with BLEU, the others, which were not trained on, fall so much that the means do."""
    made = tables(studies, **OPTIONS)
    near, translated = made["nearness"], made["translated"]
    falling = near.assign(value=near["value"].where(near["seed"] == 0, 1 - near["value"]))
    kept = translated[(translated["training"] == NOT_TUNED) | (translated["seed"] == 0)]
    found = predictors(falling, kept).set_index(["when", "measure", "training"])["rho"]
    assert found["after", "r2", NOT_TUNED] == pytest.approx(-1.0)
    assert found["after", "r2", TUNED] == pytest.approx(1.0)
    points = drawn(predictors(falling, kept), falling[falling["when"] == "after"], kept)
    own = points[(points["training"] == TUNED) & (points["measure"] == "r2")]
    assert sorted(own["value"]) == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])


def test_both_means_of_a_start_are_over_its_translated_seeds(studies: dict[str, StudyRuns]) -> None:
    made = tables(studies, **OPTIONS)
    near, translated = made["nearness"], made["translated"]
    kept = translated[(translated["start"] != "ridge") | (translated["seed"] == 0)]
    lost = near.assign(value=near["value"].where((near["start"] != "ridge") | (near["seed"] == 0), 99.0))
    alone = near[(near["start"] != "ridge") | (near["seed"] == 0)]
    pd.testing.assert_frame_equal(predictors(lost, kept), predictors(alone, kept))
    shown = [drawn(made["predictors"], one, kept) for one in (lost, alone)]
    assert shown[0]["value"].tolist() == shown[1]["value"].tolist()


def test_spaces_of_unequal_width_have_no_distance_before_their_map(studies: dict[str, StudyRuns]) -> None:
    for runs in studies["aligned"].arms.values():
        for run in runs.values():
            file = run.output.folder / "alignment.json"
            found = json.loads(file.read_text())
            del found["before"]["r2"], found["before"]["retrieval_forward"]
            file.write_text(json.dumps(found))
    made = tables(studies, **OPTIONS)
    near = made["nearness"]
    assert set(near[near["when"] == "before"]["measure"]) == set(NEARNESS) - {"r2", "retrieval_forward"}
    assert list(near[near["when"] == "after"]["measure"].unique()) == list(NEARNESS)
    assert [one.figure() is not None for one in pictures(VIEWS, made)] == [True] * 4


def test_few_starts_predict_nothing(studies: dict[str, StudyRuns]) -> None:
    counts = {"aligned": 3, "hybrid": 6}
    few = {name: StudyRuns(dict([*study.arms.items()][: counts[name]]), {}) for name, study in studies.items()}
    assert tables(few, **OPTIONS)["predictors"].empty
    assert {one.name for one in pictures(VIEWS, tables(few, **OPTIONS))} >= {"hybrid_scores", "hybrid_nearness"}


def other_starts(arms: Any) -> Any:
    return {arm: runs for arm, runs in arms.items() if "ridge" not in arm}


def an_earlier_start(arms: Any) -> Any:
    before = arms["alignment-ridge"][1]
    again = before.output._replace(run=before.output.run._replace(digest="another"))
    return arms | {"alignment-ridge": arms["alignment-ridge"] | {1: before._replace(output=again)}}


def two_of_one_start(arms: Any) -> Any:
    """They would count as seeds."""
    return arms | {"translation-ridge-frozen": arms["translation-ridge-all"]}


@pytest.mark.parametrize("study, change, said", [
    ("aligned", other_starts, r"does not start from a run of study 'aligned' with its seed"),
    ("aligned", an_earlier_start, "starts from an earlier run; run: isoscope train hybrid"),
    ("hybrid", two_of_one_start, "several arms have the start 'ridge' trained on; keep one"),
])  # fmt: skip
def test_a_start_that_is_not_the_aligned_run_is_refused(
    studies: dict[str, StudyRuns], study: str, change: Callable[[Any], Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        tables(studies | {study: StudyRuns(change(studies[study].arms), {})}, **OPTIONS)


def test_the_captions_say_n_and_which_p_is_possible(studies: dict[str, StudyRuns]) -> None:
    found = tables(studies, **OPTIONS)
    scores, near, *predictors = (one.caption for one in pictures(VIEWS, found))
    assert "n = 3 seeds" in scores
    assert "10 tokens" in near
    assert ["before: without the map" in one for one in predictors] == [True, False]
    for n, said in (
        (4, "With n = 4, p is at least 2/4! = 0.083, and 1 after Holm's correction for 16 tests: none can be"),
        (8, "Below .05 after Holm's correction for 16 tests: none."),
    ):
        *_, last = pictures(VIEWS, found | {"predictors": found["predictors"].assign(n=n)})
        assert said in last.caption


@pytest.mark.parametrize("aligned, tuned, message", [
    ("dynamics", "fusion", r"objective 'masked'; expected 'alignment'"),
    ("isotropy", "dynamics", "does not start from a run of 'isotropy'"),
])  # fmt: skip
def test_studies_that_do_not_fit_are_refused(aligned: str, tuned: str, message: str) -> None:
    configuration = Configuration(ROOT)
    section = Hybrids(kind="hybrids", aligned=aligned, tuned=tuned)
    lacks = [
        section.lacks(study, {name: arm.cell for name, arm in configuration.cells(study).items()})
        for study in section.compared
    ]
    assert any(one and message.strip("r") in one for one in lacks)


def test_one_study_is_not_both() -> None:
    with pytest.raises(ValueError, match="aligned and tuned are both 'a'"):
        Hybrids(kind="hybrids", aligned="a", tuned="a")


def test_rounding_is_not_ranked(studies: dict[str, StudyRuns]) -> None:
    """A measure that a rotation does not change is 1 for all starts, but for rounding."""
    for place, runs in enumerate(studies["aligned"].arms.values()):
        for run in runs.values():
            file = run.output.folder / "alignment.json"
            found = json.loads(file.read_text())
            found["after"]["cka"] = 1.0 - 1e-8 * place
            file.write_text(json.dumps(found))
    rows = tables(studies, **OPTIONS)["predictors"].query("when == 'after'").set_index("measure")
    assert rows.loc["cka", "rho"].isna().all()
    assert rows.loc["r2", "rho"].notna().all()
