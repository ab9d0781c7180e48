"""Notes that a trial of a search stores about itself."""

from optuna.trial import FrozenTrial, Trial

PROVENANCE = "provenance"
"""Attribute of a trial: where and with which code it ran, the `digests` of its runs, its working `seconds`."""


def worked(trial: FrozenTrial | Trial) -> float | None:
    """Return the recorded seconds of work on a trial."""
    seconds: float | None = trial.user_attrs.get(PROVENANCE, {}).get("seconds")
    return seconds
