"""Titles and captions of a search's figures, by the start of the figure's name."""

CAPTIONS = {
    "history": (
        "Optimisation history",
        "A dot is a complete trial; the line is the best value so far among trials that break no constraint.",
    ),
    "front": (
        "Pareto front",
        "A dot is a complete trial; pale: it breaks a constraint. No trial beats a trial of the front in all"
        " objectives. Ring: the suggested trial, farthest from the line between the front's ends; this is not yet a"
        " finding.",
    ),
    "importances": (
        "Parameter importances",
        "Bar: the share of variance over the search space that a parameter alone explains (fANOVA), by architecture."
        " Line: the middle 95 % over resampled trials. An architecture needs enough complete trials.",
    ),
    "slice": (
        "Slices",
        "The objective by each parameter, over the trials that have it. Other parameters vary at the same time, so"
        " this isolates no effect.",
    ),
    "intermediate": (
        "Intermediate values",
        "A line is the values that a trial reported, step by step; dashed up to a cross: pruned.",
    ),
    "pruning": (
        "Saved by pruning",
        "Number of complete and pruned trials that ran each step; hatched: steps saved by pruning.",
    ),
}
"""Name → title and caption, in the order on the page."""


def caption(name: str) -> tuple[str, str]:
    """Return a figure's title and caption; equal for `slice` and `slice-2`. Raises `KeyError` for an unknown name."""
    return CAPTIONS[name.partition("-")[0]]
