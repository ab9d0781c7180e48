"""What is said of each picture of a search, by the start of its name; of several objectives each has its number."""

CAPTIONS = {
    "history": (
        "Optimisation history",
        "Every complete trial by its number, and the best so far of those that break no constraint.",
    ),
    "front": (
        "Pareto front",
        "All complete trials by two objectives; those that break a constraint pale. No trial beats one on the front in"
        " all objectives. The ring: farthest from the line between the front's ends, a suggestion and no finding.",
    ),
    "importances": (
        "Parameter importances",
        "The share of variance that each parameter alone explains over the space searched (fANOVA), by architecture,"
        " with 95 % of what resampled trials give. Only with enough complete trials of an architecture: fewer say"
        " nothing.",
    ),
    "slice": (
        "Slices",
        "The objective by each parameter, over the trials that have it. Other parameters vary along: no effect is"
        " isolated here.",
    ),
    "intermediate": (
        "Intermediate values",
        "What each trial reported on the way; dashed, up to a cross: pruned.",
    ),
    "pruning": (
        "Saved by pruning",
        "Trials that took each step, of all that were complete or pruned; hatched: steps that were not taken.",
    ),
}
"""Name → title and caption, in the order in which they are shown."""


def caption(name: str) -> tuple[str, str]:
    """Title and caption of a picture: `slice` and `slice-2` alike. Raises `KeyError` for a name that is none."""
    return CAPTIONS[name.partition("-")[0]]
