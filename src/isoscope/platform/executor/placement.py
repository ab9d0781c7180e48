"""Where runs work: on this machine, on a Ray cluster, or as jobs of Slurm."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from isoscope.base.errors import InputError
from isoscope.platform.executor.cluster import Cluster, check, connected
from isoscope.platform.executor.execute import Place
from isoscope.platform.executor.this_machine import this_machine


class Placement(NamedTuple):
    """Where runs work, and what each of them gets.

    - `cluster`: auto, local, ray://HOST:PORT, or slurm; None: this machine.
    - `cpus`, `gpus`: of each run; None: as many as a run needs. Below 1, runs share a card.
    - `slurm`: options of `sbatch` by name.
    """

    cluster: str | None = None
    cpus: float | None = None
    gpus: float | None = None
    slurm: Mapping[str, str] = {}

    def check(self) -> "Placement":
        """Return it if runs can be placed so. Raises `InputError` that names the option."""
        if self.cluster is None:
            if self.gpus is not None and not 0 < self.gpus <= 1:
                raise InputError(
                    f"--gpus-per-run {self.gpus:g}: on this machine a run has one card or shares it; give a share such "
                    "as 0.25, or start one run on several cards with accelerate launch"
                )
        else:
            check(self.ray)
        return self

    @property
    def ray(self) -> Cluster:
        """The Ray cluster."""
        return Cluster(str(self.cluster), self.cpus, self.gpus)

    @contextmanager
    def opened(self, threads: int | None, *, device: str, folder: Path) -> Iterator[Place]:
        """Open it for runs of `threads` threads (None: one process at a time) on `device`; `folder`: of the project."""
        if self.cluster is None:
            yield this_machine(threads, device=device, share=self.gpus)
        else:
            with connected(self.ray.sized(threads, device=device)) as nodes:
                yield nodes


def options(text: str) -> dict[str, str]:
    """Return options of `sbatch`, given as name=value,…; a value may have commas in brackets."""
    found: dict[str, str] = {}
    for part in re.split(r",(?![^\[]*\])", text):
        name, equals, value = part.partition("=")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
            raise InputError(f"--slurm {part!r}: expected name=value, such as partition=gpu,time=120")
        found[name.replace("-", "_")] = value
    return found
