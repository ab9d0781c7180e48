"""The sum of the three embeddings, as in BERT."""

from typing import Any

from isoscope.plugins import fusion


@fusion("additive")
def additive() -> Any:
    """The sum of word, position and token-type embeddings, as in BERT.

    `(w + t) + p` (https://arxiv.org/abs/1810.04805). No parameters.
    """
    from isoscope.fusions.sources import Sum

    return Sum()
