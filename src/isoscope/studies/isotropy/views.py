"""Views of a study of penalties on anisotropy, in the report's order."""

from isoscope.base.view import under
from isoscope.studies.isotropy import courses

VIEWS = (
    *under("Does anisotropy grow, and why?", courses.ANISOTROPY, courses.EXPLAINED, courses.BARS),
    *under("What does the penalty cost?", courses.TASK, courses.PENALTY, courses.TRADE, courses.FRACTIONS),
)
TESTED = {
    "differences": (
        "Differences at the end of training: each arm minus its reference arm, over the seeds that both have. "
        "Interval: paired t over seeds. p: corrected by Holm over the arms of a metric. Detectable: the difference "
        "that Holm's first step finds with the stated power. Metrics of each update (step) and of each evaluation "
        "(validation) are means over the last updates and evaluations."
    ),
    "equal": (
        "Matched-effect comparison of penalties: metrics are compared where anisotropy, or the norm of the penalty's "
        "gradient, is equal. Each penalty's metric is interpolated along its sweep of weights. Difference: minus the "
        "first penalty with the same share of the train split, over the seeds that both have. p: corrected by Holm "
        "over all tests of a metric. If a seed never reaches the level, the remaining seeds are a selection: there is "
        "no interval and no test."
    ),
}
"""Table of differences between arms → its caption."""
