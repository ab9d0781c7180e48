"""What may differ between two runs of the same digest: kernels, and the one generator that is torch's own.

Every source of randomness has its own generator: batches and the drawn share of train are functions of the seed
(`corpora.batches`), weights come from a forked generator (`models.build`), and dropout alone uses torch's global one.
"""

import os
import re
from typing import Literal

import numpy as np
import torch

from isoscope.errors import RunError

Mode = Literal["off", "seeded", "strict"]
_DROPOUT = 0xD40
_REFUSAL = re.compile(r"(\S+) does not have a deterministic implementation")


def choose_kernels(mode: Mode) -> None:
    """Let torch pick: the fastest kernel by trial (`off`), its default (`seeded`), deterministic ones only (`strict`).

    Under `strict` an operation that has no deterministic kernel raises as soon as it is reached (see `refusal`).
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with it
    torch.use_deterministic_algorithms(mode == "strict")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # a guard against bugs that costs conv2d 2 % of a step
    torch.backends.cudnn.benchmark = mode == "off"


def seed_dropout(mode: Mode, seed: int, *, rank: int = 0, step: int = 0) -> None:
    """Seed the dropout masks of process `rank` from update `step` on; `off` takes them from the system's entropy."""
    if mode == "off":
        torch.seed()
    else:
        state = np.random.SeedSequence((seed, _DROPOUT, rank, step)).generate_state(1, np.uint64)
        torch.manual_seed(int(state[0] >> 1))


def refusal(error: RuntimeError) -> RunError | None:
    """The one line to show where `strict` has refused an operation, or None for any other error."""
    found = _REFUSAL.search(str(error))
    if found is None:
        return None
    return RunError(
        f"training.determinism: strict: {found[1]} has no deterministic implementation on this device; "
        "use another operation, or -S training.determinism=seeded"
    )


def rng_state() -> dict[str, torch.Tensor]:
    """The state of torch's random generators; batches and weights need none."""
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore_rng(state: dict[str, torch.Tensor]) -> None:
    """Put the state of `rng_state` back."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
