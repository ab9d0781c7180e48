"""Where runs work: on this machine, on a Ray cluster, or as jobs of Slurm."""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from math import ceil
from typing import NamedTuple

from isoscope.base.built_in import STAGES
from isoscope.base.environment import load
from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.config.project import Execution
from isoscope.platform.executor.cluster import Cluster, check, connected
from isoscope.platform.executor.execute import Place
from isoscope.platform.executor.slurm import Slurm, client
from isoscope.platform.executor.this_machine import this_machine

SLURM = "slurm"
# Options of sbatch that isoscope itself decides.
OWN = {
    *("array", "chdir", "clusters", "error", "export", "help", "input", "job_name", "no_requeue", "open_mode"),
    *("output", "parsable", "requeue", "signal", "test_only", "usage", "version", "wait", "wrap"),
}


class Placement(NamedTuple):
    """Where runs work, and what each of them gets.

    - `cluster`: auto, local, ray://HOST:PORT, or slurm; None: this machine.
    - `cpus`, `gpus`: of each run; None: as many as a run needs. Below 1, runs share a card.
    - `slurm`: options of `sbatch` by name.
    - `detached`: takes a line for each submitted run, if the command does not wait for the runs.
    """

    cluster: str | None = None
    cpus: float | None = None
    gpus: float | None = None
    slurm: Mapping[str, str] = {}
    detached: list[str] | None = None

    def check(self) -> "Placement":
        """Return it if runs can be placed so. Raises `InputError` that names the option."""
        if self.cluster not in (None, SLURM):
            check(self.ray)
        elif self.gpus is not None and not 0 < self.gpus <= 1:
            raise InputError(
                f"--gpus-per-run {self.gpus:g}: without Ray a run has one card or shares it; give a share such as "
                "0.25, or start one run on several cards with accelerate launch"
            )
        if self.cluster == SLURM:
            known = client("sbatch", "--help").replace("-", "_")
            for name in self.slurm:
                if name in OWN:
                    raise InputError(f"--slurm {name}: isoscope sets this option of sbatch itself; leave it out")
                if not re.search(rf"__{re.escape(name)}\b", known):
                    raise InputError(f"--slurm {name}: sbatch has no such option; sbatch --help lists them")
        if self.detached is not None and self.cluster != SLURM:
            raise InputError("--detach: only jobs of Slurm continue without this command; give --cluster slurm, too")
        return self

    @property
    def ray(self) -> Cluster:
        """The Ray cluster."""
        return Cluster(str(self.cluster), self.cpus, self.gpus)

    def room_for(
        self,
        threads: int | None,
        device: str,
        *,
        project: Project,
        stage: str = "train",
        key: str = "training.device",
    ) -> AbstractContextManager[Place]:
        """Return it, to be opened, for runs of a `stage` with `threads` threads (None: all cores) on `device`.

        Raises `InputError`, naming the setting `key`, for a device that this machine lacks.
        """
        if device == "cuda" and self.cluster is None:  # also if nothing is left to do
            load(STAGES[stage]).check_device(device, key=key)
        return self.opened(threads, device=device, project=project, stage=stage)

    @contextmanager
    def opened(self, threads: int | None, *, device: str, project: Project, stage: str = "train") -> Iterator[Place]:
        """Open it for runs of a `stage`, of `threads` threads (None: one process at a time) on `device`."""
        if self.cluster is None:
            device = device if device == "cpu" else load(STAGES[stage]).check_device(device, key="device")
            yield this_machine(threads, device=device, share=self.gpus)
        elif self.cluster == SLURM:
            words, each = sbatch_options(self.slurm, cpus=self.cpus, gpus=self.gpus, threads=threads, device=device)
            yield Slurm(words, each=each, project=project)
        else:
            with connected(self.ray.sized(threads, device=device)) as nodes:
                yield nodes


def placement_of(
    section: Execution, cluster: str | None, cpus: float | None, gpus: float | None, slurm: str | None, *, detach: bool
) -> Placement:
    """Return where runs work: as the options of a command say, else as the section `execution` does."""
    given = options(slurm) if slurm else {}
    if given and cluster != SLURM:
        raise InputError("--slurm: these are options of --cluster slurm; give it, too")
    gpus = section.gpus_per_run if gpus is None else gpus
    return Placement(cluster, cpus, gpus, {**section.slurm, **given}, [] if detach else None).check()


def options(text: str) -> dict[str, str]:
    """Return options of `sbatch`, given as name=value,…; a value may have commas in brackets."""
    found: dict[str, str] = {}
    for part in re.split(r",(?![^\[]*\])", text):
        name, equals, value = part.partition("=")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
            raise InputError(f"--slurm {part!r}: expected name=value, such as partition=gpu,time=120")
        found[name.replace("-", "_")] = value
    return found


def sbatch_options(
    given: Mapping[str, str], *, cpus: float | None, gpus: float | None, threads: int | None, device: str
) -> tuple[list[str], int]:
    """Return options of sbatch for an array of runs, and the number of runs per job, which share its GPU."""
    each = max(1, int(1 / gpus + 1e-9)) if gpus else 1
    chosen = device == "cpu" or any(name.startswith(("gpus", "gres", "tres")) for name in given)
    card = {"gpus_per_node": "1"} if not chosen and (device == "cuda" or gpus is not None) else {}
    has = {"cpus_per_task": str(ceil((cpus or threads or 1) * each)), **card, **given}
    words = [f"--{name.replace('_', '-')}" + (f"={value}" if value else "") for name, value in has.items()]
    short = re.fullmatch(r"(?:0+:)?(\d+)(?::\d+)?", given.get("time", ""))  # 1, 1:30 or 00:01:30
    warned = min(60, 15 * max(1, int(short[1]))) if short else 60  # seconds before the time limit
    return [*words, "--job-name=isoscope", "--requeue", "--export=ALL", f"--signal=B:TERM@{warned}"], each
