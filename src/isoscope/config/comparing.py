"""Section `comparisons`: comparisons of several studies, which train nothing."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from isoscope.config.base import Conflicts, Name, Section


class ObjectiveOrData(Section):
    """Does the objective or the data decide what lowers the loss? The variance of the runs' allocation by factor."""

    kind: Literal["objective_or_data"]
    """Kind of comparison."""
    studies: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    """Studies with an allocation. Their runs may differ in objective, task, training examples and seed alone."""
    permutations: Annotated[int, Field(ge=99, le=99_999)]
    """Permutations for each p."""

    def _conflicts(self) -> Conflicts:
        yield len(set(self.studies)) < len(self.studies), f"studies {list(self.studies)} contain a duplicate"

    @property
    def compared(self) -> tuple[str, ...]:
        """The studies that it reads."""
        return self.studies

    def lacks(self, cells: Iterable[Any]) -> str | None:
        """Return what the arms of a study lack for this comparison, with the remedy; None if nothing."""
        if all(cell.training.allocation for cell in cells):
            return None
        return "has arms without an allocation; add the overlay allocated to its settings"


Comparison = ObjectiveOrData
"""All kinds of comparison."""
