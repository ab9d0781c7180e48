"""Studies of penalties on anisotropy: curves over training, matched-effect comparison, published numbers."""

from isoscope.studies.isotropy import courses
from isoscope.studies.view import under

VIEWS = (
    *under("Does anisotropy grow, and why?", courses.ANISOTROPY, courses.EXPLAINED, courses.BARS),
    *under("What does the penalty cost?", courses.TASK, courses.PENALTY, courses.TRADE, courses.FRACTIONS),
)
