"""Spaces compared: what is asked, and the views of their tables."""

from isoscope.studies.spaces import (
    contexts_by_layer,
    distributions,
    lines_over_training,
    maps_between,
    self_sim_by_class,
    similarity_maps,
    verdicts,
)
from isoscope.studies.view import View, under

QUESTION = "How alike are the spaces of these models?"
VIEWS: tuple[View, ...] = (
    *under("How contextual is each space?", *contexts_by_layer.VIEWS, *self_sim_by_class.VIEWS, *distributions.VIEWS),
    *under("How alike are two spaces?", *similarity_maps.VIEWS, *maps_between.VIEWS, *verdicts.VIEWS),
    *under("How alike are they over training?", *lines_over_training.VIEWS),
)
