"""Section `comparisons`: comparisons of several studies, which train nothing."""

from typing import Annotated, Literal

from pydantic import Field

from isoscope.config.base import Name, Section


class ObjectiveOrData(Section):
    """Does the objective or the data decide what lowers the loss? The variance of the runs' allocation by factor."""

    kind: Literal["objective_or_data"]
    """Kind of comparison."""
    studies: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    """Studies with an allocation. Their runs may differ in objective, task, training examples and seed alone."""
    permutations: Annotated[int, Field(ge=99, le=99_999)]
    """Permutations for each p."""


Comparison = ObjectiveOrData
"""All kinds of comparison."""
