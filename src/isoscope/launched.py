"""Rank and world size of this process, from the environment of `torchrun` or `accelerate launch`."""

import os

from isoscope.errors import InputError


def rank() -> int:
    """Return the rank; 0 for a single process. Only rank 0 writes and prints."""
    return _number("RANK", 0) if size() > 1 else 0


def size() -> int:
    """Return the world size.

    Raises `InputError` if `accelerate launch` starts a single process although several were requested, as on a CPU.
    """
    asked_in_vain = "ACCELERATE_MIXED_PRECISION" in os.environ and "MASTER_PORT" in os.environ
    if asked_in_vain and "RANK" not in os.environ:
        raise InputError(
            "accelerate launch started one process although several were requested; add --multi_gpu, also on a CPU: "
            "accelerate launch --multi_gpu --num_processes 2 -m isoscope train …"
        )
    return _number("WORLD_SIZE", 1)


def alone() -> dict[str, str]:
    """Return the environment for a helper process that is not a rank of the run."""
    return {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "MASTER_PORT")}


def _number(name: str, alone: int) -> int:
    text = os.environ.get(name, str(alone))
    if not text.isdecimal():
        raise InputError(f"{name}={text!r} in the environment: expected a number, as torchrun sets it; unset it")
    return int(text)
