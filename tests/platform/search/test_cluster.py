"""A search on a Ray cluster: as with local workers, nothing is lost and nothing is counted twice."""

import collections
import os
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
from isoscope.platform.executor import cluster as module
from isoscope.platform.executor.cluster import Cluster, check, connected
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
@pytest.mark.slow
def test_a_node_is_killed_in_mid_study(tmp_path: Path, nodes: RayNodes) -> None:
    given = {"seconds": 0.6, "steps": 6, "workers": 4}
    hold = tmp_path / "hold"
    hold.touch()  # every run waits after its first step, so that all can be placed anew
    process = begin(tmp_path, nodes.settings, **given, trials=20, cluster="auto")
    big, small = nodes.raylets[BIG], nodes.raylets[SMALL]
    wait(process, lambda: all(len(runs_on(node, tmp_path)) == 2 for node in (big, small)))
    kill(*tree(small))
    wait(process, lambda: len(runs_on(big, tmp_path)) == 4)
    hold.unlink()
    assert ended(process).count("lost with its process or node; run again") == 2
    check_all(tmp_path, 20)
    ended(begin(tmp_path, **given, trials=24))
    check_all(tmp_path, 24)


def runs_on(raylet: int, folder: Path) -> list[str]:
    """Processes that have worked on a node."""
    return [file.name for file in (folder / "nodes").glob("*") if file.read_text() == str(raylet)]


@pytest.mark.ray
@pytest.mark.slow
def test_a_cluster_of_its_own_on_loopback_stops_on_ctrl_c(tmp_path: Path) -> None:
    needs_ray()
    given = {"workers": 2, "seconds": 3, "steps": 10, "cpus": 0.5}
    for times, states in ((1, {STATES.COMPLETE: 2}), (2, {STATES.COMPLETE: 2, STATES.RUNNING: 2})):
        process = begin(tmp_path, SETTINGS, **given, cluster="local")
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
    ended(begin(tmp_path, **given))
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


@pytest.mark.parametrize("address, missing", [("local", "ray"), ("ray://head:10001", "grpc")])
def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, address: str, missing: str) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == missing else util.find_spec("json"))
    with pytest.raises(InputError, match=r"Ray is missing; pip install 'isoscope\[cluster\]'$"):
        check(Cluster(address, 1, 0))
