"""Views of a study of dynamics, in the report's order."""

from isoscope.base.view import under
from isoscope.studies.dynamics.allocation_views import BARS, CLOSED, HEADS, LEARNED
from isoscope.studies.dynamics.course_views import OVER_TIME, POSITIVE, SLICES, SYNCHRONY
from isoscope.studies.dynamics.hurting_views import COMPARED, HURTING, MAPS

VIEWS = (
    *under("Did the models learn?", LEARNED),
    *under("Which parts lower the loss?", BARS, HEADS),
    *under("When do they lower it?", *OVER_TIME, SYNCHRONY),
    *under("When do parts hurt?", HURTING, MAPS, POSITIVE, COMPARED),
    *under("Which parts learn which tokens?", SLICES),
    *under("Is the whole change of the loss allocated?", CLOSED),
)
