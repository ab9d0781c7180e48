"""A run's row: its record, missing data, the query that finds it in MLflow; and a page older than params.yaml."""

from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from isoscope.platform.config.project import Study
from isoscope.platform.outputs import Trained
from isoscope.platform.report.runs import home, lacking, run_row, server
from isoscope.platform.runs.lines import Attempt, End, Point, Run, RunRecord
from isoscope.platform.runs.record import working_seconds
from isoscope.platform.stages.report import pages
from report_material import COMMIT, Material

RUN = Trained("fusion", "fft", 0, "order", "ab" * 32, "c" * 64, {"data/processed/order": "e" * 32}, {"p.py": "f" * 64})


def record(*lines: object) -> RunRecord:
    made = RunRecord()
    for line in (Run(0, RUN.digest, "train"), *lines):
        made.take(line)
    return made


def attempt(t: int, dirty: bool = False) -> Attempt:
    return Attempt(t, "host", 1, {"commit": COMMIT, "dirty": dirty}, {"device": "cuda"})


def test_a_pause_before_a_resume_is_no_work() -> None:
    made = record(
        *(attempt(1_000), Point(11_000, "train/loss", 1.0, 1), End(12_000, "KILLED")),
        *(attempt(9_000_000), Point(9_004_000, "train/loss", 1.0, 2), End(9_005_000, "FINISHED")),
    )
    assert working_seconds(made) == pytest.approx(10 + 5, abs=1.01)
    assert [working_seconds(record(*lines)) for lines in ((attempt(1_000),), ())] == [0, None]


def test_what_a_record_says() -> None:
    row = run_row(RUN, record(attempt(0, dirty=True), End(5_000, "FINISHED")), tracking_uri=None, experiment=None)
    said = {"status": "finished", "commit": COMMIT, "dirty": True, "device": "cuda", "attempts": 1}
    assert said.items() <= row.items()
    nothing = {"status": "no record here", **dict.fromkeys(("commit", "dirty", "device", "seconds"))}
    assert nothing.items() <= run_row(RUN, None, tracking_uri=None, experiment=None).items()


def test_the_link_searches_for_the_digest() -> None:
    link = run_row(RUN, None, tracking_uri="http://127.0.0.1:5000/", experiment="7")["link"]
    base, query = link.split("?")
    assert base == "http://127.0.0.1:5000/#/experiments/7/runs"
    search = f"tags.`isoscope.digest` = '{RUN.digest}'"
    assert parse_qs(query) == {"workflowType": ["machine_learning"], "searchFilter": [search]}
    assert "'" not in link
    assert unquote(link).endswith(f"'{RUN.digest}'")


def test_a_run_is_in_the_experiment_of_the_study_that_began_it() -> None:
    """A study may find the runs of another, or have another name by now."""
    known = RunRecord()
    known.take(Run(0, RUN.digest, "train", study="fusion"))
    assert home(known, "renamed") == "fusion"
    assert home(None, "renamed") == home(RunRecord(), "renamed") == "renamed"


@pytest.mark.parametrize(
    "tracking_uri, experiment",
    [(None, "7"), ("http://x", None), ("sqlite:///mlflow.db", "7"), ("javascript:alert(1)", "7")],
)
def test_no_link_without_a_server_and_an_experiment(tracking_uri: str | None, experiment: str | None) -> None:
    row = run_row(RUN, None, tracking_uri=tracking_uri, experiment=experiment)
    assert row["link"] is None
    assert row["search"] == "tags.`isoscope.digest` LIKE 'abababababab%'"


@pytest.mark.parametrize(
    "tracking_uri, address",
    [
        ("https://user:secret@mlflow.example:8443/base/", "https://mlflow.example:8443/base"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("sqlite:///mlflow.db", None),
        ("http://[::1", None),
        ("", None),
        (None, None),
    ],
)
def test_a_page_names_a_server_without_its_password(tracking_uri: str | None, address: str | None) -> None:
    assert server(tracking_uri) == address


def test_the_pages_are_those_of_the_environment_and_an_address_that_is_none_is_named_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for unset in ({}, {"MLFLOW_TRACKING_URI": ""}):
        assert pages(unset) == "http://127.0.0.1:5000"
    assert pages({"MLFLOW_TRACKING_URI": "https://host/x"}) == "https://host/x"
    assert capsys.readouterr().err == ""
    assert server(pages({"MLFLOW_TRACKING_URI": "http://ada:secret@[::1"})) is None
    [line] = capsys.readouterr().err.splitlines()
    assert "@[::1: is not an address, so the page has no links to MLflow; unset it" in line
    assert "secret" not in line


ARMS = ("additive", "conv2d_identity", "fft")
PARAMS = {"training.epochs": 8, "training.device": "cpu", "model.fusion.kernel_size": [3, 3]}


def study(**changed: Any) -> Study:
    given = {"task": "order", "settings": [], "axes": {"fusion": list(ARMS)}, "seeds": [0, 1, 2], "kind": "arms"}
    return Study(**given | changed)


def found(material: Material, arms: Any = ARMS, *, now: Any = PARAMS, **changed: Any) -> list[str]:
    """What the part of the material lacks of a study, whose runs all have the parameters `PARAMS`."""
    (tables,) = material.studies
    records = {run.digest: RunRecord(Run(0, run.digest, "train", params=PARAMS)) for run in tables.runs}
    return lacking(tables, study(**changed), dict.fromkeys(arms, now), records)


def test_a_complete_part_lacks_nothing(material: Material) -> None:
    assert found(material) == []


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"seeds": [0, 1, 2, 3]}, "3 runs are missing: additive seed 3, conv2d_identity seed 3, fft seed 3"),
        ({"arms": (*ARMS, "spectrum")}, "3 runs are missing: spectrum seed 0, spectrum seed 1, spectrum seed 2"),
        ({"seeds": [0, 1]}, "3 runs are not in params.yaml: additive seed 2, conv2d_identity seed 2, fft seed 2"),
        ({"arms": ARMS[:2]}, "3 runs are not in params.yaml: fft seed 0, fft seed 1, fft seed 2"),
        ({"now": PARAMS | {"training.epochs": 9}}, "and 6 more (training.epochs)"),
        ({"now": PARAMS | {"model.fusion.kernel_size": [5, 5]}}, "and 6 more (model.fusion.kernel_size)"),
    ],
)
def test_what_is_missing_or_older_is_named(material: Material, changed: dict[str, Any], said: str) -> None:
    (sentence,) = found(material, **changed)
    assert said in sentence


@pytest.mark.parametrize(
    "now", [PARAMS | {"training.device": "cuda"}, PARAMS | {"training.new": 1}, {}], ids=["device", "new", "none"]
)
def test_what_changes_no_number_is_not_named(material: Material, now: dict[str, Any]) -> None:
    assert found(material, now=now) == []


def test_the_first_screen_says_it(material: Material) -> None:
    said = "3 runs are missing: fft seed 3"
    page = material.page(lacks={"fusion": [said]})
    assert page.index(said) < page.index('id="study-fusion"')
    assert "This part is not what params.yaml asks for." in page
    assert "This part is not what params.yaml asks for." not in material.page()
