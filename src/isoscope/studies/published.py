"""What comparisons with published results have in common: their verdicts, and what `isoscope reproduce` shows."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.platform.config.project import Cell, Study

PASS, FAIL, UNDERPOWERED, ALONE = "pass", "fail", "under-powered", "ours alone"
INDISTINCT, NO_VERDICT = "indistinct", "no verdict"
VERDICTS = (PASS, FAIL, UNDERPOWERED, INDISTINCT, ALONE, NO_VERDICT)


class Reproduced(NamedTuple):
    """A comparison of a study with published results."""

    cells: list[dict[str, Any]]
    text: str
    failed: bool
    """Whether a comparison that decides the exit code failed."""


class Reproducible(NamedTuple):
    """A kind of study with published results."""

    applies: Callable[[Study, Sequence[Cell]], bool]
    """Whether a study, with these arms, is of this kind."""
    read: Callable[[Path], Reproduced]
    """Read the comparison from `reports/parts/<study>`. Raises `InputError` that names the command that makes it."""


def counted(verdicts: Sequence[str]) -> str:
    """Return how often each verdict was given, as text."""
    counts = {verdict: verdicts.count(verdict) for verdict in VERDICTS}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
