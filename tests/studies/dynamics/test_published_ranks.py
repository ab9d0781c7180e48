"""`isoscope reproduce` of a study of dynamics: each verdict from planted counts, its words and its exit code."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from allocation_material import ARM, planted
from isoscope.base.errors import InputError
from isoscope.platform.cli import app
from isoscope.platform.outputs import table_of_metrics
from isoscope.platform.results.published import Reproduced, reproduced_by
from isoscope.platform.results.study_tables import Tables, write_tables
from isoscope.studies.dynamics.hurting_counts import compared, hurting_counts, with_verdicts

ROOT = Path(__file__).parents[3]
PUBLISHED = {"emb": 0, "W1": 0, "W2": 0, "out": 1, "value": 2, "key": 3, "query": 4}
REVERSED = {name: 4 - rank for name, rank in PUBLISHED.items()}
CASES = 20


def ranks(counts: dict[str, int], *, seeds: int = 3, word: str = "trained") -> pd.DataFrame:
    """Return the comparison of runs whose components hurt in as many updates as `counts` says."""
    runs = [planted(counts, CASES, seed=seed) for seed in range(seeds)]
    found = with_verdicts(compared(hurting_counts(runs), runs, {ARM: word}), 0.95)
    return found[found["counted"] == "updates"]


def test_p_is_corrected_over_the_arms_of_a_counting() -> None:
    about = {"word": "not trained", "tau": 1.0, "least": 0.0, "n": 3}
    rows = [about | {"counted": "updates", "p": p} for p in (0.02, 0.03, float("nan"), 0.5)]
    rows.insert(1, about | {"counted": "single", "p": 0.04})
    found = with_verdicts(pd.DataFrame(rows), 0.95)
    assert found["p_holm"].tolist() == pytest.approx([0.06, 0.04, 0.06, float("nan"), 0.5], nan_ok=True)


AGAINST = REVERSED | {"emb": 0, "query": 2}


@pytest.mark.parametrize(
    "counts, options, said",
    [
        (PUBLISHED, {}, "pass: the ranks agree (τ > 0, p ≤ 0.05)"),
        (REVERSED, {}, "fail: the ranks are rather reversed (τ < 0, p ≤ 0.05)"),
        (PUBLISHED | {"emb": 4, "query": 2}, {}, "under-powered: no clear order: p > 0.05"),
        (AGAINST, {}, "under-powered: no clear order: p > 0.05"),
        (PUBLISHED, {"seeds": 2}, "under-powered: 2 seeds: no verdict below 3"),
        (REVERSED, {"seeds": 1}, "under-powered: 1 seed: no verdict below 3"),
        (dict.fromkeys(PUBLISHED, 1), {}, "under-powered: all components hurt equally often"),
        (
            {name: PUBLISHED[name] for name in ("out", "value", "key")},
            {},
            "under-powered: no order of 3 components with these ties has p ≤ 0.05",
        ),
        (PUBLISHED, {"word": "not trained"}, "no verdict: not trained"),
    ],
)
def test_verdicts(counts: dict[str, int], options: dict[str, Any], said: str) -> None:
    (row,) = ranks(counts, **options).to_dict("records")
    assert f"{row['verdict']}: {row['reason']}" == said
    assert counts != AGAINST or row["tau"] < 0 < 0.05 < row["p"]


def written(folder: Path, **tables: pd.DataFrame) -> Path:
    """Write an analysed study with these tables."""
    bands = pd.DataFrame(columns=["study", "arm", "metric", "epoch", "mean", "sd", "n"])
    confusion = pd.DataFrame(columns=["study", "arm", "actual", "predicted", "n"])
    by_name = {"bands": bands, "confusion": confusion, "metrics": table_of_metrics([])} | tables
    write_tables(folder / "dynamics", Tables("dynamics", by_name, [], [], confidence=0.95, power=0.8, margin=0.01))
    return folder / "dynamics"


def shown(folder: Path, **tables: pd.DataFrame) -> Reproduced:
    return reproduced_by("dynamics", written(folder, **tables))


def test_another_estimator_is_judged_but_does_not_decide(tmp_path: Path) -> None:
    decides = ranks(PUBLISHED)
    other = ranks(REVERSED).assign(counted="single", decides=False)
    found = shown(tmp_path, hurting_published=pd.concat([decides, other]))
    assert [cell["verdict"] for cell in found.cells] == ["pass", "fail"]
    assert not found.failed
    assert found.text.splitlines()[-1] == "1 pass, 1 fail"
    assert not shown(tmp_path, hurting_published=other).failed
    assert shown(tmp_path, hurting_published=ranks(REVERSED)).failed


def test_what_is_missing_names_its_command(tmp_path: Path) -> None:
    old = ranks(PUBLISHED).drop(columns="verdict")
    with pytest.raises(
        InputError, match=r"no table hurting_published, or .* version \('verdict'\); run: isoscope analyse dynamics"
    ):
        shown(tmp_path, hurting_published=old)
    assert shown(tmp_path / "none").text.startswith("no runs of a published objective")


@pytest.mark.parametrize("counts, code", [(PUBLISHED, 0), (REVERSED, 1)])
def test_the_command_has_an_exit_code(
    counts: dict[str, int],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("variants", "params.yaml", "dvc.yaml"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile)(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "reports/parts", hurting_published=ranks(counts))
    assert (app(["reproduce", "dynamics", "--json"], standalone_mode=False) or 0) == code
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert (cell["arm"], cell["verdict"]) == (ARM, "fail" if code else "pass")
