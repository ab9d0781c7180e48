"""Ray nodes on this machine's loopback, with so many CPUs each: `python ray_nodes.py 4 2`; they end with its stdin."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
SETTINGS = {
    "PYTHONPATH": os.pathsep.join([str(FOLDER.parent / "src"), str(FOLDER)]),
    "RAY_AUTH_TOKEN": 64 * "0",  # else Ray writes one into the home folder
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # nothing but loopback
    "RAY_USAGE_STATS_ENABLED": "0",
}


class RayNodes:
    """A separate cluster; `raylets` are its nodes' processes, parents of everything that runs there."""

    def __init__(self, *cpus: int) -> None:
        needs_ray()
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, *map(str, cpus)],
            env={**os.environ, **SETTINGS},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        known = json.loads(next(line for line in self._process.stdout if line.startswith("{")))
        self.raylets: list[int] = known["raylets"]
        self.address: str = known["address"]
        self.settings = {**SETTINGS, "RAY_ADDRESS": self.address}

    def remove(self) -> None:
        """End all nodes."""
        self._process.communicate(timeout=60)


def needs_ray() -> None:
    """Skips where Ray is not installed."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed (make cluster)")


def main() -> None:
    """Start nodes and keep them until stdin ends."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    nodes = [
        cluster.add_node(num_cpus=int(cpus), include_dashboard=False, object_store_memory=80 * 2**20)
        for cpus in sys.argv[1:]
    ]
    raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
    print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
