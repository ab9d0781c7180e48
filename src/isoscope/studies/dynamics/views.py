"""Views of a study of dynamics, in the report's order."""

from isoscope.base.view import under
from isoscope.studies.dynamics import (
    allocation_bars,
    curves_over_time,
    head_maps,
    hurting_figures,
    slice_curves,
    summaries,
)

VIEWS = (
    *under("Did the models learn?", summaries.LEARNED),
    *under("Which parts lower the loss?", allocation_bars.BARS, head_maps.HEADS),
    *under("When do they lower it?", *curves_over_time.OVER_TIME, curves_over_time.SYNCHRONY),
    *under(
        "When do parts hurt?",
        hurting_figures.HURTING,
        hurting_figures.MAPS,
        curves_over_time.POSITIVE,
        hurting_figures.COMPARED,
    ),
    *under("Which parts learn which tokens?", slice_curves.VIEW),
    *under("Is the whole change of the loss allocated?", summaries.CLOSED),
)
