"""Settings that are larger than the run, and so do nothing or less than they say."""

from typing import Any


def without_effect(settings: Any, *, rows: int, per_epoch: int, total: int) -> list[str]:
    """Return a line for each setting that is too large for a run of `total` updates, `per_epoch` an epoch.

    `rows`: of the train split that is used.
    """
    found = []
    if per_epoch == 1 and settings.batch_size >= rows:
        found.append(
            f"training.batch_size {settings.batch_size:,} holds all {rows:,} rows of train: one update per epoch, "
            f"{total:,} in all; a smaller batch gives more updates"
        )
    if settings.log_every > total:
        found.append(f"training.log_every {settings.log_every:,}: no step is logged, the run has {total:,} updates")
    if settings.evaluations > per_epoch:
        found.append(f"training.evaluations {settings.evaluations:,}: an epoch has {per_epoch:,} updates, so as many")
    every = settings.snapshots.steps
    if isinstance(every, int) and every > total:
        found.append(f"training.snapshots.steps {every:,}: only the start is kept, the run has {total:,} updates")
    return found
