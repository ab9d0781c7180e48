"""Check that an extraction has enough sentences for its analyses."""

from isoscope.errors import InputError
from isoscope.geometry.probes import FRACTIONS
from isoscope.inside.trajectory import Trajectory


def check_enough(run: Trajectory, *, folds: int, neighbours: int) -> None:
    """Check the number of sentences; else raise `InputError` with the option to change.

    Probes need as many sentences as `folds`, and as many as code lengths have blocks. A token needs `neighbours` tokens
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
            raise InputError(f"{key}: {sentences} sentences, but probes need {least}; increase it, or use fewer folds")
    inner = run.tokens.loc[~run.tokens["end"], "sentence"]
    if len(inner) and (others := len(inner) - inner.value_counts().max()) < neighbours:
        raise InputError(
            f"extraction.block: a token has {others} in other sentences, fewer than measures.neighbours = {neighbours}"
            "; use more sentences"
        )
