"""What a trial of a search notes of itself."""

from optuna.trial import FrozenTrial, Trial

PROVENANCE = "provenance"
"""Attribute of a trial: what made it and where, the `digests` of its runs, the `seconds` it was worked on."""


def worked(trial: FrozenTrial | Trial) -> float | None:
    """Seconds of work on a trial, as far as they were noted."""
    seconds: float | None = trial.user_attrs.get(PROVENANCE, {}).get("seconds")
    return seconds
