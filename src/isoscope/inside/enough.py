"""Whether an extraction kept as many sentences as the analyses of it divide."""

from isoscope.errors import InputError
from isoscope.geometry.probes import FRACTIONS
from isoscope.inside.trajectory import Trajectory


def check_enough(run: Trajectory, *, folds: int, neighbours: int) -> None:
    """Raise `InputError` where fewer were kept, naming the number to change.

    Probes take as many sentences as `folds`, and as code lengths have blocks; `neighbours` of a token are looked for
    in other sentences.
    """
    least = max(folds, len(FRACTIONS))
    kept = {
        "extraction.share (or extraction.sentences)": len(run.probe),
        "extraction.words": run.words["sentence"].nunique(),
    }
    if run.treebank is not None:
        kept["extraction.treebank.sentences"] = run.treebank["sentence"].nunique()
    for key, sentences in kept.items():
        if sentences < least:
            raise InputError(f"{key}: of {sentences} sentences, but probes take {least}; give more, or fewer folds")
    inner = run.tokens.loc[~run.tokens["end"], "sentence"]
    if len(inner) and (others := len(inner) - inner.value_counts().max()) < neighbours:
        raise InputError(
            f"extraction.block: a token has {others} in other sentences, fewer than measures.neighbours = {neighbours}"
            "; give more sentences"
        )
