"""No fusion: the embedding block of a published checkpoint stays as transformers has it."""

from typing import Any

from isoscope.base.errors import InputError
from isoscope.plugins import fusion


@fusion("native")
def native() -> Any:
    """The model's own embedding block, of any encoder or decoder that transformers loads.

    For checkpoints (`model.encoder.kind: pretrained`, or a run that started from one). No parameters beyond its own.
    """
    raise InputError(
        "model.fusion.kind: 'native' leaves the embedding block of a checkpoint, and an encoder from scratch has none; "
        "set model.encoder.kind: pretrained, or choose additive"
    )
