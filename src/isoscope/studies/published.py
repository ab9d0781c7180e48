"""Compare results with published numbers, which each kind keeps in its `published.yaml`: verdicts, and their text."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

from isoscope.platform.config.tree import read_yaml
from isoscope.platform.statistics.paired import NO_VERDICT, Verdict

FILE = Path("published.yaml")
PASS, FAIL, UNDERPOWERED, ALONE, INDISTINCT = "pass", "fail", "under-powered", "ours alone", "indistinct"
VERDICTS = (PASS, FAIL, UNDERPOWERED, INDISTINCT, ALONE, NO_VERDICT)
BLANK = "–"


class Reproduced(NamedTuple):
    """A comparison with published numbers: its rows, a text for a terminal, and whether a row that decides failed."""

    cells: list[dict[str, Any]]
    text: str
    failed: bool


@cache
def published(folder: Path) -> Mapping[str, Any]:
    """Return the published numbers in the folder of a kind: papers, values, settings; empty if it has none."""
    return read_yaml(folder, FILE) if (folder / FILE).is_file() else {}


def papers(remakes: Iterable[str | None]) -> dict[str, Mapping[str, str | None]]:
    """Return the papers that figures follow, by the names in `View.remakes`: each with its title and address."""
    texts = [text for text in remakes if text]
    every = (
        found
        for folder in sorted(Path(__file__).parent.iterdir())
        for found in published(folder).get("papers", {}).items()
    )
    return {name: paper for name, paper in every if any(text.startswith(name) for text in texts)}


def agrees(difference: float, half: float, tolerance: float) -> Verdict:
    """Return the verdict on "our number is the published number", of a difference with an interval ± `half`.

    - *pass*: the whole interval is within the tolerance.
    - *fail*: the whole interval is outside the tolerance.
    - *under-powered*: neither.
    """
    if abs(difference) - half > tolerance:
        return Verdict(FAIL, f"the whole interval is more than {tolerance:.2g} from the published value")
    if abs(difference) + half <= tolerance:
        return Verdict(PASS, f"the whole interval is within {tolerance:.2g} of the published value")
    return Verdict(UNDERPOWERED, f"the interval does not decide whether it is within {tolerance:.2g}")


def reproduced(cells: Sequence[Mapping[str, Any]], shown: Mapping[str, Any]) -> Reproduced:
    """Return a comparison, from its rows with a verdict and a reason each.

    `shown`, from `published.yaml`: `columns` (heading → template of a row's text), `nothing` (said without rows), and
    `notes` (column → text below, if a row has a number there). A row whose `decides` is false cannot fail.
    """
    rows = [{name: None if value != value else value for name, value in cell.items()} for cell in cells]
    if not rows:
        return Reproduced([], str(shown["nothing"]), False)
    reasons = dict.fromkeys(str(row["reason"]) for row in rows)
    alike = len(reasons) == 1 < len(rows)
    ends = [row["verdict"] if alike else f"{row['verdict']}: {row['reason']}" for row in rows]
    texts = [[*shown["columns"], "verdict"]]
    texts += [
        [*(_text(one, row) for one in shown["columns"].values()), end] for row, end in zip(rows, ends, strict=True)
    ]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in texts]
    lines += [f"{reason}." for reason in reasons if alike and reason]
    lines += [text for column, text in shown.get("notes", {}).items() if any(row[column] is not None for row in rows)]
    verdicts = [row["verdict"] for row in rows]
    counts = {verdict: verdicts.count(verdict) for verdict in VERDICTS}
    lines.append(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    failed = any(row["verdict"] == FAIL and row.get("decides", True) for row in rows)
    return Reproduced(rows, "\n".join(lines), failed)


def _text(template: str, row: Mapping[str, Any]) -> str:
    """Fill a template with a row; a dash if it has no number there."""
    fields = [name for _, name, _, _ in Formatter().parse(template) if name]
    return BLANK if any(row[name] is None for name in fields) else template.format(**row)
