"""Measure `sts`: does the cosine of two sentence vectors follow the scores that people gave?"""

from isoscope import plugins
from isoscope.base.metric import Metric, Shown
from isoscope.geometry.sts import rank_correlation, spearman_of_cosines
from isoscope.states.cloud import Cell, OfAll
from isoscope.states.measures import SIGNED, Figures


@plugins.measure(
    "sts",
    (
        Metric("sts", "STS: Spearman of cosine and human score", **SIGNED, shown=Shown(compared=True)),
        Metric("sts_permuted", "STS with permuted scores", **SIGNED),
        Metric("sts_overlap", "STS of the overlap of words", **SIGNED),
    ),
    of="pairs",
)
def sts(cell: Cell) -> Figures:
    """Spearman of cosine and human score over all pairs, and of word overlap; intervals: bootstrap, permutations."""
    assert cell.pairs is not None
    one, other = (cell.points[rows] for rows in (cell.pairs.first, cell.pairs.second))
    found = spearman_of_cosines(one, other, cell.pairs.score, confidence=cell.confidence, seed=cell.seed)
    overlap = rank_correlation(cell.pairs.overlap, cell.pairs.score, draws=1)  # the same at every layer: no interval
    return {
        "sts": OfAll(*found.spearman),
        "sts_permuted": OfAll(*found.permuted),
        "sts_overlap": overlap.spearman.value,
    }
