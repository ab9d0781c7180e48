"""Views of compared spaces, in the report's order."""

from isoscope.base.view import View, under
from isoscope.studies.spaces import (
    contexts_by_layer,
    distributions,
    lines_over_training,
    maps_between,
    self_sim_by_class,
    similarity_maps,
    verdicts,
)

VIEWS: tuple[View, ...] = (
    *under(
        "How contextual is each space?",
        *contexts_by_layer.VIEWS,
        *self_sim_by_class.VIEWS,
        *distributions.VIEWS,
        contexts_by_layer.COUNTS,
    ),
    *under("How alike are two spaces?", *similarity_maps.VIEWS, *maps_between.VIEWS, *verdicts.VIEWS),
    *under("How alike are they over training?", *lines_over_training.VIEWS),
)
