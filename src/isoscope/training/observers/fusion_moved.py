"""Log how far training moved the fusion: the metric `fusion/moved` after each epoch."""

from isoscope.models import build
from isoscope.objectives import Scored
from isoscope.training.observers import Context, Observer


class FusionMoved(Observer):
    """`‖θ − θ₀‖ / ‖θ₀‖` over the fusion's parameters (see `models.build.fusion_distance`), if the fusion has any."""

    name = "fusion_moved"

    def begin(self, context: Context) -> None:
        self.model = context.model
        self.start = {name: value.detach().clone() for name, value in build.fusion_parameters(context.model).items()}

    def evaluated(self, scored: Scored, epoch: int | None) -> dict[str, float]:
        if not epoch or scored.split != "validation":
            return {}
        moved = build.fusion_distance(self.model, self.start)
        return {} if moved is None else {"fusion/moved": moved}


def observer(settings: None = None) -> FusionMoved:
    """Return the observer; every run has it."""
    return FusionMoved()
