"""A Slurm of its own on this machine's loopback: munge, a controller and small nodes, in a temporary folder."""

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={hold}
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=5
KillWait=20
{nodes}
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=30
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
"""
HOLD = 5
"""Seconds that a requeued job waits; at least 5; the default of Slurm is 120."""


class SlurmNodes:
    """A controller and nodes `n1`, `n2`, … with so many CPUs each. `settings`: environment of commands that use it."""

    def __init__(self, folder: Path, *cpus: int) -> None:
        needs_slurm()
        self.folder = folder
        self.settings = {"SLURM_CONF": str(folder / "slurm.conf"), "SLURM_TIME_FORMAT": "standard"}
        host, port, *ports = socket.gethostname().partition(".")[0], *_free_ports(1 + len(cpus))
        self.names = [f"n{number + 1}" for number in range(len(cpus))]
        nodes = [
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={at} CPUs={many} State=UNKNOWN"
            for name, many, at in zip(self.names, cpus, ports, strict=True)
        ]
        for name in ("state", *(f"spool-{name}" for name in self.names)):
            (folder / name).mkdir(parents=True)
        given = {"host": host, "port": port, "folder": folder, "hold": HOLD, "nodes": "\n".join(nodes)}
        (folder / "slurm.conf").write_text(CONFIGURATION.format(**given))
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        files = {"key-file": "key", "log-file": "log", "pid-file": "pid", "seed-file": "seed", "socket": "socket"}
        self._start("munged", "--force", *(f"--{option}={folder}/munge.{name}" for option, name in files.items()))
        self._start("slurmctld", "-f", self.settings["SLURM_CONF"])
        for name in self.names:
            self.start(name)
        self.wait("idle")

    def start(self, name: str) -> None:
        """Start the slurmd of a node."""
        self._start("slurmd", "-f", self.settings["SLURM_CONF"], "-N", name)

    def run(self, *command: str) -> str:
        """Run a client of Slurm; return what it prints."""
        environment = {**os.environ, **self.settings}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout

    def wait(self, state: str, seconds: float = 60.0) -> None:
        """Wait until all nodes are in a state."""
        deadline = time.monotonic() + seconds
        while set(self._states()) != {state}:
            assert time.monotonic() < deadline, (self._states(), (self.folder / "slurmctld.log").read_text()[-4000:])
            time.sleep(0.2)

    def _states(self) -> list[str]:
        with suppress(subprocess.CalledProcessError):
            return self.run("sinfo", "--noheader", "--Node", "--partition=low", "--format=%T").split()
        return []

    def kill(self, name: str) -> None:
        """Kill the slurmd of a node and all that runs there, as a power loss does."""
        pid = int((self.folder / f"slurmd-{name}.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        mark = f"SLURMD_NODENAME={name}".encode()
        own = f"SLURM_CONF={self.settings['SLURM_CONF']}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if {mark, own} <= set(path.read_bytes().split(b"\0")):
                    os.kill(int(path.parent.name), signal.SIGKILL)
        for path in Path("/proc").glob("[0-9]*/cmdline"):  # slurmstepd of the node's jobs
            with suppress(OSError):
                if path.read_bytes().startswith(b"slurmstepd") and _parent(path.parent) == pid:
                    os.kill(int(path.parent.name), signal.SIGKILL)

    def _start(self, *command: str) -> None:
        subprocess.run(
            command, env={**os.environ, **self.settings}, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )

    def remove(self) -> None:
        """Cancel all jobs, and end the daemons by their pid files."""
        with suppress(subprocess.SubprocessError):
            self.run("scancel", "--signal=KILL", "--full", "--state=RUNNING")
            self.run("scancel", "--me")
        for path in (*self.folder.glob("slurmd-*.pid"), self.folder / "slurmctld.pid", self.folder / "munge.pid"):
            with suppress(OSError, ValueError):
                os.kill(int(path.read_text()), signal.SIGTERM)


def _parent(process: Path) -> int:
    return int((process / "stat").read_text().rpartition(")")[2].split()[1])


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def needs_slurm() -> None:
    """Skips where Slurm is not installed, or its daemons cannot be started."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)} (Debian: apt-get install slurm-wlm munge)")
    if os.geteuid():
        pytest.skip("Slurm's daemons are started as root only")
