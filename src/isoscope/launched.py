"""Which of several processes of one run this is, as `torchrun` and `accelerate launch` tell their children."""

import os

from isoscope.errors import InputError


def rank() -> int:
    """0 for the first process, which alone writes and speaks; also where there is only one."""
    return _number("RANK", 0) if size() > 1 else 0


def size() -> int:
    """How many processes share the run.

    Raises `InputError` where several were asked for and one was started, as `accelerate launch` does on a CPU.
    """
    asked_in_vain = "ACCELERATE_MIXED_PRECISION" in os.environ and "MASTER_PORT" in os.environ
    if asked_in_vain and "RANK" not in os.environ:
        raise InputError(
            "accelerate launch was asked for several processes and has started one; on a CPU too it needs --multi_gpu: "
            "accelerate launch --multi_gpu --num_processes 2 -m isoscope train …"
        )
    return _number("WORLD_SIZE", 1)


def alone() -> dict[str, str]:
    """The environment of a helper that is none of the run's processes."""
    return {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "MASTER_PORT")}


def _number(name: str, alone: int) -> int:
    text = os.environ.get(name, str(alone))
    if not text.isdecimal():
        raise InputError(f"{name}={text!r} in the environment: expected a number, as torchrun sets it; unset it")
    return int(text)
