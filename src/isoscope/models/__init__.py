"""Encoders with a choice of fusion; importing this package registers them with transformers' Auto classes.

The encoder-decoder is in `isoscope.models.translation`, which registers it: a change there concerns no other model.
"""

from typing import Any

from isoscope.models import families


def __getattr__(name: str) -> Any:
    """Return a class of `families`, such as `FusionBertForMaskedLM`."""
    return getattr(families, name)
