"""Control what may differ between two runs of the same digest: kernels, and torch's global generator.

Every source of randomness has its own generator. Batches and the drawn share of train are functions of the seed
(`data.batches`). Weights come from a forked generator (`models.build`). Only dropout uses torch's global generator.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch

Mode = Literal["off", "seeded", "strict"]
_DROPOUT = 0xD40


def choose_kernels(mode: Mode) -> None:
    """Choose kernels: the fastest by trial (`off`), torch's default (`seeded`), deterministic kernels only (`strict`).

    Under `strict`, an operation without a deterministic kernel raises when it runs (see `ranks.in_one_line`).
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with this setting
    torch.use_deterministic_algorithms(mode == "strict")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # guards against bugs; costs conv2d 2 % of a step
    torch.backends.cudnn.benchmark = mode == "off"


def seed_dropout(mode: Mode, seed: int, *, rank: int = 0, step: int = 0) -> None:
    """Seed the dropout masks of process `rank` from update `step` on; `off` takes a seed from the system."""
    if mode == "off":
        torch.seed()
    else:
        torch.manual_seed(seed_of(seed, _DROPOUT, rank, step))


def seed_of(*key: int) -> int:
    """Return a seed for torch's generators, drawn for `key`."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1)


def rng_state() -> dict[str, torch.Tensor]:
    """Return the state of torch's random generators; batches and weights need none."""
    cuda = {"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {}
    return {"cpu": torch.get_rng_state(), **cuda}


def restore_rng(state: dict[str, torch.Tensor]) -> None:
    """Restore the state that `rng_state` returned."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


@contextmanager
def same_draws() -> Iterator[None]:
    """Give back what is drawn inside from the generators of torch, numpy and Python."""
    state, numbers, python = rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002 - the global generator
    try:
        yield
    finally:
        restore_rng(state)
        np.random.set_state(numbers)  # noqa: NPY002
        random.setstate(python)
