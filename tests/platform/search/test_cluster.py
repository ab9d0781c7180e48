"""A search on a Ray cluster: as with local workers, nothing is lost and nothing is counted twice."""

import collections
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import psutil
import pytest

from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.executor import cluster as module
from isoscope.platform.executor.cluster import Cluster, check, connected
from isoscope.platform.search.storage import check_shared, place
from isoscope.platform.stages.search import work_on_node
from isoscope.platform.stages.study_cells import Setup
from postgres import PostgreSQL
from ray_nodes import SETTINGS, RayNodes, needs_ray
from search_under_way import STATES, begin, ended, in_state, kill, tree, trials_of, wait
from search_under_way import check as check_all

BIG, SMALL = 0, 1


@pytest.fixture
def nodes() -> Iterator[RayNodes]:
    """Two nodes; the first has room for all workers."""
    found = RayNodes(4, 2)
    try:
        yield found
    finally:
        found.remove()


@pytest.mark.ray
@pytest.mark.postgresql
@pytest.mark.slow
def test_a_node_is_killed_in_mid_study(tmp_path: Path, postgres: PostgreSQL, nodes: RayNodes) -> None:
    words = ["--seconds", "0.6", "--steps", "6", "--url", postgres.url, "--workers", "4"]
    hold = tmp_path / "hold"
    hold.touch()  # every worker waits within its trial, so that trials are left for those that are placed anew
    process = begin(tmp_path, *words, "--trials", "20", "--cluster", "auto", **nodes.settings)
    big, small = nodes.raylets[BIG], nodes.raylets[SMALL]
    wait(process, lambda: (tmp_path / "runs").exists())
    wait(process, lambda: all(len(workers_on(node, tmp_path, postgres.url)) == 2 for node in (big, small)))
    kill(*tree(small))
    wait(process, lambda: len(workers_on(big, tmp_path, postgres.url)) == 4)
    hold.unlink()
    said = ended(process)
    assert said.count("a worker was lost with its process or node: replaced") == 2
    assert said.count("taken over, its worker has died") == 2
    check_all(tmp_path, 20, postgres.url)
    # A trial names the node that ended it.
    assert {trial.user_attrs["provenance"]["node"] for trial in trials_of(tmp_path, postgres.url)} == {str(big)}

    ended(begin(tmp_path, *words, "--trials", "24"))
    check_all(tmp_path, 24, postgres.url)
    assert {trial.user_attrs["provenance"]["node"] for trial in trials_of(tmp_path, postgres.url)[20:]} == {None}


def workers_on(raylet: int, folder: Path, url: str) -> set[int]:
    """Processes on a node that have begun a trial."""
    known = [trial.user_attrs.get("provenance", {}) for trial in trials_of(folder, url)]
    return {one["pid"] for one in known if one.get("node") == str(raylet)}


@pytest.mark.ray
@pytest.mark.slow
def test_a_cluster_of_its_own_on_loopback_stops_on_ctrl_c(tmp_path: Path) -> None:
    needs_ray()
    words = ["--trials", "6", "--workers", "2", "--seconds", "3", "--steps", "10", "--cpus", "0.5"]
    for times, states in ((1, {STATES.COMPLETE: 2}), (2, {STATES.COMPLETE: 2, STATES.RUNNING: 2})):
        process = begin(tmp_path, *words, "--cluster", "local", **SETTINGS)
        wait(process, lambda: len(in_state(STATES.RUNNING, tmp_path)) == 2)
        family = psutil.Process(process.pid).children(recursive=True)
        for _ in range(times):  # soon, before a trial ends and another begins
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: Ray's processes are in the group, too
            time.sleep(0.3)
        if times == 1:  # the running trials are finished first
            heard = [one.laddr.ip for member in family for one in listening(member)]
            assert len(heard) > 3
            assert set(heard) <= {"127.0.0.1", "::ffff:127.0.0.1"}
        ended(process)
        assert collections.Counter(trial.state for trial in trials_of(tmp_path)) == states
        assert psutil.wait_procs(family, timeout=600)[1] == []
    ended(begin(tmp_path, *words))
    check_all(tmp_path, 6)


def listening(process: psutil.Process) -> list[object]:
    try:
        return [one for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    except psutil.Error:
        return []


@pytest.mark.ray
def test_what_has_no_room_here_is_one_line() -> None:
    """In a separate process, since Ray keeps the settings of its start."""
    needs_ray()
    code = "from isoscope.platform.executor.cluster import *\nwith connected(Cluster('local', 9000, 0)): pass"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **SETTINGS}, capture_output=True, text=True)
    line = "InputError: --cluster local: each worker needs 9000 CPU and 0 GPU; this machine has "
    assert line in done.stderr.splitlines()[-1], done.stderr


def test_nobody_at_an_address_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", os.environ.copy())
    with (
        pytest.raises(InputError, match=r"^--cluster ray://127\.0\.0\.1:1: no Ray cluster answers \(.*refused\)$"),
        connected(Cluster("ray://127.0.0.1:1", 1, 0)),
    ):
        pass
    for address in ("127.0.0.1:1", "local"):
        monkeypatch.setenv("RAY_ADDRESS", address)
        with (
            pytest.raises(InputError, match=rf"^RAY_ADDRESS={address}: no Ray cluster answers \(.*\)$"),
            connected(Cluster("auto", 1, 0)),
        ):
            pass


@pytest.mark.parametrize("address", ["", "Auto", "ray://db", "http://db:1", "127.0.0.1:6379"])
def test_an_address_is_one_of_three(address: str) -> None:
    with pytest.raises(InputError, match="expected auto, local or ray://HOST:PORT"):
        check(Cluster(address, 1, 0))


def test_a_file_is_not_shared_between_nodes(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"auto: storage sqlite://.* is a file on one machine; use --storage postgresql://"
    ):
        check_shared(place(None, tmp_path), Cluster("auto", 1, 0))
    check_shared(place(None, tmp_path), Cluster("local", 1, 0))
    check_shared(place("postgresql://one@db/isoscope", tmp_path), Cluster("ray://head:10001", 1, 0))


@pytest.mark.parametrize("address, missing", [("local", "ray"), ("ray://head:10001", "grpc")])
def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, address: str, missing: str) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == missing else util.find_spec("json"))
    with pytest.raises(InputError, match=r"Ray is missing; pip install 'isoscope\[cluster\]'$"):
        check(Cluster(address, 1, 0))


def test_a_node_without_the_project_says_so(tmp_path: Path) -> None:
    gone = tmp_path / "project"
    setup = Setup.__new__(Setup)  # as on the node, where it comes without a configuration
    setup.__dict__.update(project=Project(gone, gone), stage="search")
    with pytest.raises(InputError, match=rf"^node \S+: no project at {re.escape(str(gone))}; .* at the same path"):
        work_on_node(setup, "postgresql://one@db/isoscope", str(gone), None, print)  # type: ignore[arg-type]
    assert not gone.exists()


def test_ray_is_not_imported_unless_asked_for() -> None:
    code = "import sys, isoscope.platform.stages.search, isoscope.platform.executor.cluster\n"
    code += "assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
