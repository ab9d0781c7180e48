"""The sum of the three embeddings with scaled words, as in translation models."""

import math
from typing import Any

from isoscope.plugins import fusion


@fusion("scaled")
def scaled(hidden_size: int) -> Any:
    """The same sum with word embeddings times the square root of the hidden size, as in translation models.

    `(√D · w + t) + p`, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762). No parameters.
    """
    from isoscope.fusions.sources import Sum

    return Sum(math.sqrt(hidden_size))
