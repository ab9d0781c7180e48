"""A run's row: the content of its record, missing data, and the query that finds it in MLflow."""

from urllib.parse import parse_qs, unquote

import pytest

from isoscope.platform.outputs import Trained
from isoscope.platform.report.runs import run_row, server, working_seconds
from isoscope.platform.runs.lines import Attempt, End, Point, Run, RunRecord
from report_material import COMMIT

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
        ("", None),
        (None, None),
    ],
)
def test_a_page_names_a_server_without_its_password(tracking_uri: str | None, address: str | None) -> None:
    assert server(tracking_uri) == address
