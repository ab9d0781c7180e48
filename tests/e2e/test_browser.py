"""Pages in a browser after `isoscope repro`: runs side by side in MLflow, and the report."""

import json
import signal
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

import pytest

from browser import chromium, opened
from isoscope.platform.mirror.browsing import runs_page
from isoscope.platform.mirror.mlflow import connect
from pipeline_project import ARMS, Finished, Project, wait_for, written

pytestmark = pytest.mark.chromium


@pytest.fixture(scope="module")
def project(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return finished.project.copy(tmp_path_factory.mktemp("browser") / "project")


def answers(port: int) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
        return True
    return False


@pytest.fixture(scope="module")
def pages(project: Project) -> Iterator[str]:
    """Yield the address of `isoscope ui`; all its processes end with it."""
    chromium()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = project.start("ui", "--port", str(port))
    try:
        wait_for(lambda: answers(port) or server.poll() is not None, seconds=600)
        assert server.poll() is None, server.communicate()
        yield f"http://127.0.0.1:{port}/#"
    finally:
        server.terminate()
        said, _ = server.communicate()
    assert server.returncode == 128 + signal.SIGTERM
    assert f"fusion: {runs_page(f'http://127.0.0.1:{port}', '1')}\n" in said
    wait_for(lambda: not answers(port))


@pytest.fixture(scope="module")
def ids(project: Project) -> tuple[str, list[str]]:
    """MLflow's ids of the experiment and of the arms' runs."""
    client = connect(None, project.folder).client
    (experiment,) = client.search_experiments(filter_string="name = 'fusion'")
    runs = {run.info.run_name: run.info.run_id for run in client.search_runs([experiment.experiment_id])}
    client._tracking_client.store.engine.dispose()
    return experiment.experiment_id, [runs[f"{arm} seed 0"] for arm in ARMS]


def test_mlflow_ranks_the_runs_by_a_metric(project: Project, pages: str, ids: tuple[str, list[str]]) -> None:
    accuracy = {arm: written(project.output(arm))["test/accuracy"][0][1] for arm in ARMS}
    ranked = sorted(ARMS, key=accuracy.__getitem__, reverse=True)
    assert accuracy[ranked[0]] > accuracy[ranked[1]], "there is something to rank"
    order = f"orderByKey={quote('metrics.`test/accuracy`')}&orderByAsc=false"
    with opened(f"{pages}/experiments/{ids[0]}/runs?viewMode=TABLE&{order}", width=1920) as seen:
        seen.page.get_by_text("additive seed 0", exact=True).first.wait_for(timeout=300_000)
        seen.page.get_by_role("button", name="Columns").click()
        seen.page.get_by_placeholder("Search columns").fill("test/accuracy")
        seen.page.get_by_text("test/accuracy", exact=True).first.click()
        seen.page.keyboard.press("Escape")
        for _ in range(60):  # the table is drawn piece by piece: names and figures in halves of their own
            rows = [row.split("\n") for row in seen.page.get_by_role("row").all_inner_texts()]
            named = [word for row in rows if "Pin run" in row for word in row if word.endswith(" seed 0")]
            shown = [row[-1] for row in rows if "isoscope train" in row and row[-1].startswith(("0.", "1"))]
            if len(named) == len(shown) == len(ARMS):
                break
            seen.page.wait_for_timeout(500)
        assert named == [f"{arm} seed 0" for arm in ranked]
        assert [float(text) for text in shown] == pytest.approx([accuracy[arm] for arm in ranked], abs=5e-4)
        assert not [url for url in seen.requests if not url.startswith("http://127.0.0.1:")]


def test_mlflow_compares_the_arms_side_by_side(project: Project, pages: str, ids: tuple[str, list[str]]) -> None:
    experiment, runs = ids
    query = f"runs={quote(json.dumps(runs))}&experiments={quote(json.dumps([experiment]))}"
    with opened(f"{pages}/compare-runs?{query}", width=1920) as seen:
        seen.page.get_by_text("Comparing 2 Runs from 1 Experiment").wait_for(timeout=300_000)
        rows = {
            name: seen.page.get_by_role("row").filter(has=seen.page.get_by_text(name, exact=True)).first.inner_text()
            for name in ("axis.fusion", "model.fusion.kernel_size", "training.learning_rate", "seed")
        }
        assert rows["axis.fusion"].split() == ["axis.fusion", "additive", "conv2d"]
        assert rows["training.learning_rate"].split() == ["training.learning_rate", "0.03", "0.03"]
        assert "".join(rows["model.fusion.kernel_size"].split()) == "model.fusion.kernel_size[3,3]"
        for name in ("test/accuracy", "validation/loss", "train/gradient_norm"):
            assert seen.page.get_by_text(name, exact=True).count() > 0


def test_the_report_shows_the_figure_the_table_and_every_run(project: Project) -> None:
    with opened(project.folder / "reports/index.html") as seen:
        assert seen.page.get_by_role("heading", level=1).inner_text() == "Order of two words"
        figure = seen.page.locator("figure").filter(has_text="Figure 1.1").first
        box = figure.locator("svg").first.bounding_box()
        assert box["height"] > 150
        table = seen.page.locator("table").filter(has_text="Table 1").first
        for arm in ARMS:
            assert table.get_by_role("row").filter(has_text=arm).count() > 0
            assert seen.page.locator(f"#run-{project.digest(arm)}").count() == 1
        assert seen.requests == []
        assert seen.complaints == []
