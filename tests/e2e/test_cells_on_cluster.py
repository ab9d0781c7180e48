"""Cells of a study on a Ray cluster: each done once, equal to local processes, whatever dies."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cells_elsewhere import CELLS, outputs, untrained
from isoscope.platform.runs.record import read
from pipeline_project import Finished, Project, wait_for
from ray_nodes import RayNodes, needs_ray
from search_under_way import kill, tree

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    """Two nodes; the last test kills the second."""
    found = RayNodes(1, 1)
    try:
        yield found
    finally:
        found.remove()


@pytest.fixture(scope="module")
def local(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Every cell, trained by local processes."""
    project = copied(finished, tmp_path_factory.mktemp("local"))
    project.isoscope("train", "fusion", *CELLS)
    return project


@pytest.fixture
def project(finished: Finished, tmp_path: Path) -> Project:
    return copied(finished, tmp_path)


def copied(finished: Finished, folder: Path) -> Project:
    needs_ray()
    return untrained(finished, folder)


def under_way(project: Project, pids: list[int]) -> list[str]:
    """Return the runs with metrics whose process is among these."""
    found = []
    for path in (project.folder / ".isoscope/runs").glob("*/lease.json"):
        record = project.folder / f".isoscope/records/{path.parent.name}.jsonl"
        text = path.read_text()
        if text and record.exists() and json.loads(text)["pid"] in pids and read(record).metrics:
            found.append(path.parent.name)
    return found


def done_once(project: Project) -> dict[str, int]:
    """Digest → attempts; each run is finished."""
    records = project.records()
    assert {record.status for record in records.values()} == {"FINISHED"}
    return {digest: len(record.attempts) for digest, record in records.items()}


@pytest.mark.parametrize("command", [("train", "fusion"), ("repro",), ("states", "fusion"), ("search", "run")])
def test_a_bad_address_is_one_line(project: Project, command: tuple[str, ...]) -> None:
    line = "isoscope: --cluster 'everywhere': expected slurm, auto, local or ray://HOST:PORT"
    assert project.refused(*command, "--cluster", "everywhere") == line
    assert project.refused(*command, ISOSCOPE_CLUSTER="everywhere") == line


def test_a_node_is_killed_and_every_cell_is_done_once(project: Project, local: Project, nodes: RayNodes) -> None:
    process = project.start("train", "fusion", *CELLS, "--cluster", "auto", **nodes.settings)
    lost: list[str] = []

    def stopped_in_a_cell() -> bool:
        victims = tree(nodes.raylets[1])
        kill(*victims, number=signal.SIGSTOP)  # so that what is seen is so when it is killed
        lost[:] = under_way(project, victims)
        if not lost:
            kill(*victims, number=signal.SIGCONT)
        return bool(lost) or process.poll() is not None

    wait_for(stopped_in_a_cell)
    kill(*tree(nodes.raylets[1]))
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert said.count("lost with its process or node; replaced") >= len(lost)
    attempts = done_once(project)
    assert {digest for digest, count in attempts.items() if count > 1} >= set(lost)
    assert sorted(attempts) == sorted(outputs(local))
    assert outputs(project) == outputs(local)
