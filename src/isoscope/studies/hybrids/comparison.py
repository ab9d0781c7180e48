"""The options of a comparison of hybrids, in params.yaml."""

from collections.abc import Mapping
from typing import Any

from isoscope.platform.config.base import Conflicts, Name
from isoscope.platform.config.comparing import Comparison


class Hybrids(Comparison):
    """Does an aligned encoder translate, and which measure of its nearness to the decoder's encoder predicts it?"""

    aligned: Name
    """Study of the objective alignment; its arms are the starts."""
    tuned: Name
    """Study of translation models; each of its arms starts from an arm of `aligned` (`model.encoder.kind: run`)."""

    def _conflicts(self) -> Conflicts:
        yield self.aligned == self.tuned, f"aligned and tuned are both {self.tuned!r}; name two studies"

    @property
    def compared(self) -> tuple[str, ...]:
        """The studies that it reads."""
        return self.aligned, self.tuned

    def lacks(self, study: str, arms: Mapping[str, Any]) -> str | None:
        """Return what an arm of a study does not have; None if all have it."""
        for arm, cell in arms.items():
            if study == self.aligned and cell.objective.kind != "alignment":
                return f"has the arm {arm!r} with objective {cell.objective.kind!r}; expected 'alignment'"
            start = cell.model.encoder
            found = getattr(start, "study", None), getattr(start, "seed", None)
            if study == self.tuned and (start.kind, *found) != ("run", self.aligned, "same"):
                return f"has the arm {arm!r}, which does not start from a run of {self.aligned!r} with the same seed"
            if study == self.tuned and cell.objective.kind != "translation":
                return f"has the arm {arm!r} with objective {cell.objective.kind!r}; expected 'translation'"
        return None


COMPARISON = Hybrids
