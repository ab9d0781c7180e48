"""Studies of penalties on anisotropy: curves over training, matched-effect comparison, published numbers."""

from isoscope.studies.isotropy import courses

VIEWS = (
    courses.ANISOTROPY,
    courses.TASK,
    courses.PENALTY,
    courses.EXPLAINED,
    courses.BARS,
    courses.TRADE,
    courses.FRACTIONS,
)
