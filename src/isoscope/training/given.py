"""What a model is trained with. Imports no library, so that a finished run is found without one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Job(NamedTuple):
    """What a model is trained with: settings, data, and the checkpoints that it starts from."""

    parts: Any
    """Settings by section: `model`, `objective`, `penalty`, `observers`, `training`."""
    plugins: bool
    """Whether a plugin is among them."""
    seed: int
    data: Path
    manifest: Mapping[str, Any]
    tokenizer: Path
    checkpoint: Path | None
    """A published checkpoint to start from."""
    starts: Callable[[], Mapping[str, Path]]
    """The selected checkpoints of the runs to start from, by their part of the model: `model`, or `encoder` and
    `decoder`. Each call finds them intact, or raises `InputError`."""
    unchanged: Callable[[], object]
    """Raises if the data have changed since they were hashed; called when all of them have been read."""
