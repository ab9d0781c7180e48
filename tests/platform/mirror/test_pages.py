"""MLflow's own pages in a browser: where our links lead, and what a person can do there."""

import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from browser import chromium, opened
from isoscope.platform.mirror import browsing
from isoscope.platform.mirror.browsing import runs_page
from isoscope.platform.mirror.mlflow import connect
from isoscope.platform.mirror.replay import mirror
from isoscope.platform.report.runs import link
from isoscope.platform.runs.lines import Run
from mlflow_server import MlflowServer
from tracked_runs import RUN, start

pytestmark = pytest.mark.chromium

STUDY = "pages"
ACCURACY = {"additive": 0.6, "conv2d": 0.8, "fft": 0.7}
RANKED = ["conv2d", "fft", "additive"]
SEEDS = (0, 1)


FASTER = {"params": RUN["params"] | {"training.learning_rate": 1.0}}
"""A run of `fft` with another number than the study's."""
CHANGED = "learning_rate=1.0"
SETTINGS = f"""\
studies:
  {STUDY}: {{task: order, settings: [], axes: {{fusion: [additive, conv2d, fft]}}, seeds: [0, 1]}}
training: {{learning_rate: 2e-5}}
model: {{fusion: {{kind: additive, gate: null}}}}
objective: {{kind: classification}}
"""


def group(arm: str, changes: str = "", **changed: Any) -> str:
    """What MLflow calls the runs of an arm."""
    return f"Group: {browsing.arm_and_setting(Run(0, '', **{**RUN, 'arm': arm, **changed}), changes)}"


def settings(project: Path) -> None:
    """The study's settings, from which runs differ."""
    (project / "params.yaml").write_text(SETTINGS)
    for name in ("task/order", *(f"fusion/{arm}" for arm in ACCURACY)):
        overlay = project / "variants" / f"{name}.yaml"
        overlay.parent.mkdir(parents=True, exist_ok=True)
        overlay.write_text("{}\n")


def digest(arm: str, seed: int) -> str:
    return f"{[*ACCURACY].index(arm)}{seed}" * 32


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, running_server: MlflowServer) -> tuple[str, str]:
    """Address of a server, and id of its experiment with the training runs of three arms."""
    chromium()
    if running_server.process is None:  # another test has stopped it
        running_server.start()
    project = tmp_path_factory.mktemp("pages")
    settings(project)
    fft = {"study": STUDY, "arm": "fft", "axes": {"fusion": "fft"}}
    with start(project, digest="9" * 64, seed=0, **fft, **FASTER) as record:
        record.metric("test/accuracy", 0.1, step=5)
        record.end("FINISHED", output=f"models/{STUDY}/fft/seed-0")
    for seed, status in ((2, "KILLED"), (3, "FAILED")):
        time.sleep(0.01)  # runs without the metric stand by their start, in milliseconds
        with start(project, digest=f"{seed:064x}", seed=seed, **fft) as record:
            record.end(status)
    for arm, accuracy in ACCURACY.items():
        for seed in SEEDS:
            names = {"study": STUDY, "arm": arm, "seed": seed, "axes": {"fusion": arm}}
            with start(project, digest=digest(arm, seed), **names) as record:
                for step in range(1, 6):
                    record.metric("train/loss", 1 / step, step=step)
                    record.metric("system/cpu_utilization_percentage", 10.0 * step, step=step)
                record.metric("test/accuracy", accuracy + seed / 100, step=5)
                record.end("FINISHED", output=f"models/{STUDY}/{arm}/seed-{seed}")
    assert not [sent.error for sent in mirror(project, uri=running_server.uri) if sent.error]
    return running_server.uri, connect(running_server.uri, project).experiment(STUDY)


def names(page: Page) -> list[str]:
    """Groups and runs of the table from top to bottom; the table places its rows without moving them in the page."""
    rows = page.get_by_role("row").filter(has_text="Pin ").all()
    placed = sorted((int(row.get_attribute("row-index") or -1), row.inner_text()) for row in rows)
    return [line for _, text in placed for line in text.split("\n") if " seed " in line or line.startswith("Group: ")]


def wait(page: Page, wanted: list[str]) -> None:
    """Wait until the table shows these groups and runs."""
    for _ in range(600):
        if (found := names(page)) == wanted:
            return
        page.wait_for_timeout(500)
    raise AssertionError(found)


def test_a_study_is_grouped_and_ranked_by_arm(study: tuple[str, str]) -> None:
    server, experiment = study
    with opened(runs_page(server, experiment), width=1920) as seen:
        page = seen.page
        for arm in ACCURACY:
            page.get_by_text(group(arm), exact=True).wait_for()
            page.get_by_text(f"{ACCURACY[arm] + 0.005:g} (average)").wait_for()

        # Killed and failed runs are last, the changed parameter is a column, and no name is cut.
        assert names(page)[0].startswith("Group: ")
        of_fft = names(page)[names(page).index(group("fft")) + 1 :][:4]
        assert sorted(of_fft[:2]) == ["fft seed 0", "fft seed 1"]
        assert of_fft[2:] == ["fft seed 3", "fft seed 2"]
        page.get_by_role("columnheader", name="training.learning_rate").first.wait_for()
        for name in (group("fft", CHANGED, **FASTER), f"fft seed 0 {CHANGED}"):
            row = page.get_by_text(name, exact=True)
            assert row.evaluate("name => name.closest('.ag-cell').clientWidth > name.scrollWidth")

        page.get_by_role("button", name="Sort: isoscope.order").click()
        page.get_by_placeholder("Search").last.fill("test/accuracy")
        page.get_by_text("test/accuracy", exact=True).first.click()
        ranked = [line for arm in RANKED for line in (group(arm), f"{arm} seed 1", f"{arm} seed 0")]
        at = ranked.index("fft seed 0") + 1
        last = [group("fft", CHANGED, **FASTER), f"fft seed 0 {CHANGED}"]
        wait(page, [*ranked[:at], "fft seed 3", "fft seed 2", *ranked[at:], *last])
        for arm, accuracy in ACCURACY.items():
            page.get_by_text(f"{accuracy + 0.005:g} (average)").wait_for()
            assert page.get_by_text(f"{arm} seed 0", exact=True).count() == 1

        assert seen.requests
        assert not [url for url in seen.requests if not url.startswith(server)]


def test_a_link_of_the_report_leads_to_its_run_and_the_run_to_its_load(study: tuple[str, str]) -> None:
    server, experiment = study
    address = link(digest("fft", 1), server, experiment)
    with opened(address, width=1920) as seen:
        page = seen.page
        page.get_by_text("1 matching run").wait_for()
        wait(page, ["fft seed 1"])
        page.get_by_text("fft seed 1", exact=True).first.click()
        page.get_by_text(f"isoscope train {STUDY} fft --seed 1").first.wait_for()
        page.get_by_role("tab", name="System metrics").click()
        page.get_by_text("cpu_utilization_percentage").first.wait_for()
        page.locator(".js-plotly-plot").first.wait_for()
