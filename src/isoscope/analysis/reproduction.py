"""Published figures beside ours: the difference, the interval over seeds, and whether they agree."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from isoscope.analysis.statistics import FEWEST_SEEDS
from isoscope.errors import InputError

FILE = "reproduction.json"
PASS, FAIL, UNDERPOWERED, ALONE = "pass", "fail", "under-powered", "ours alone"

COMPONENTS = ("a_1", "a_2", "a_3", "a_1_centred", "a_2_centred", "a_3_centred")
ARMS = ("none", "selected", "all")
_TABLE_3 = {
    ("bert", "mrpc"): (
        (0.679, 0.125, 0.023, 0.733, 0.034, 0.017),
        (0.485, 0.098, 0.042, 0.483, 0.057, 0.024),
        (0.541, 0.165, 0.028, 0.576, 0.050, 0.017),
    ),
    ("roberta", "mrpc"): (
        (0.629, 0.287, 0.012, 0.832, 0.036, 0.007),
        (0.540, 0.214, 0.032, 0.611, 0.065, 0.019),
        (0.559, 0.276, 0.021, 0.686, 0.061, 0.010),
    ),
    ("bert", "cola"): (
        (0.647, 0.099, 0.028, 0.660, 0.038, 0.018),
        (0.499, 0.076, 0.028, 0.468, 0.037, 0.022),
        (0.502, 0.078, 0.023, 0.478, 0.032, 0.020),
    ),
    ("roberta", "cola"): (
        (0.581, 0.277, 0.016, 0.700, 0.056, 0.013),
        (0.534, 0.222, 0.021, 0.512, 0.073, 0.019),
        (0.542, 0.221, 0.018, 0.510, 0.063, 0.017),
    ),
}
"""Table 3 of arXiv:2501.05502: shares of the batch's [CLS] matrix, raw and centred, by arm; means of five runs. Which
triple is the raw one is inferred. Its Table 2, of the tasks' metrics, has never been readable."""
BACKBONES = {
    "bert": ("google-bert/bert-base-uncased", "bert-base-uncased"),
    "roberta": ("FacebookAI/roberta-base", "roberta-base"),
}


class Cell(NamedTuple):
    """One published figure beside ours."""

    arm: str
    figure: str
    published: float | None
    seeds: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    """Interval of our mean over seeds, by t; None below 3 seeds."""
    difference: float | None
    """Ours less the published one."""
    verdict: str
    reason: str


def published(checkpoint: str | None, task: str) -> Mapping[tuple[str, str], float]:
    """The source's figure by (arm, figure) for a checkpoint and a task; empty where it has none."""
    for backbone, names in BACKBONES.items():
        if checkpoint in names and (backbone, task) in _TABLE_3:
            rows = zip(ARMS, _TABLE_3[backbone, task], strict=True)
            return {(arm, figure): value for arm, row in rows for figure, value in zip(COMPONENTS, row, strict=True)}
    return {}


def reproduction(
    averages: pd.DataFrame, known: Mapping[tuple[str, str], float], *, tolerance: float, confidence: float
) -> list[Cell]:
    """Every arm's shares over its last updates beside the published ones.

    *pass*: the means differ by at most `tolerance`, and the interval over seeds is no wider than that either way.
    *fail*: the whole interval lies further than `tolerance` from the published mean. *under-powered*: neither, or fewer
    than 3 seeds. *ours alone*: nothing was published for this backbone, task and arm.
    """
    found = []
    for arm in dict.fromkeys(averages["arm"]):
        for figure in COMPONENTS:
            rows = averages[(averages["arm"] == arm) & (averages["figure"] == f"step/{figure}")]
            if len(rows):
                known_one = known.get((arm.rpartition("-")[2], figure))
                found.append(_cell(arm, figure, known_one, rows["value"].to_numpy(), tolerance, confidence))
    return found


def _cell(arm: str, figure: str, known: float | None, values: Any, tolerance: float, confidence: float) -> Cell:
    n, mean = len(values), float(np.mean(values))
    sd = float(np.std(values, ddof=1)) if n > 1 else None
    half = None
    if sd is not None and n >= FEWEST_SEEDS:
        half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * sd / n**0.5
    low, high = (None, None) if half is None else (mean - half, mean + half)

    def cell(difference: float | None, verdict: str, reason: str) -> Cell:
        return Cell(arm, figure, known, n, mean, sd, low, high, difference, verdict, reason)

    if known is None:
        return cell(None, ALONE, "nothing published for this backbone, task and arm")
    difference = mean - known
    if half is None:
        return cell(difference, UNDERPOWERED, f"{n} seed{'s' * (n != 1)}: no interval below {FEWEST_SEEDS}")
    if abs(difference) - half > tolerance:
        return cell(difference, FAIL, f"further than {tolerance:g} from the published mean, interval and all")
    if abs(difference) <= tolerance and half <= tolerance:
        return cell(difference, PASS, f"within {tolerance:g} of the published mean")
    return cell(difference, UNDERPOWERED, f"the interval does not decide whether it lies within {tolerance:g}")


def read(folder: Path) -> list[Cell]:
    """The cells that `isoscope chart` wrote into `folder`. Raises `InputError` where it has not, or on damage."""
    try:
        return [Cell(**cell) for cell in json.loads((folder / FILE).read_text("utf-8"))]
    except FileNotFoundError:
        raise InputError(f"{folder / FILE}: no such file; run: isoscope repro") from None
    except (ValueError, TypeError):
        raise InputError(f"{folder / FILE}: not what isoscope chart left; run: isoscope repro") from None


def as_text(cells: Sequence[Cell]) -> str:
    """The cells as lines for a terminal, and how many have which verdict."""
    if not cells:
        return "no runs: the study has no seeds here, or its runs do not watch anisotropy (training.watch)"
    width = max(len(cell.arm) for cell in cells)
    lines = [f"{'arm':{width}}  {'figure':12} {'published':>9}  {'ours':>6}  {'interval':>14}  verdict"]
    for cell in cells:
        known = "" if cell.published is None else f"{cell.published:.3f}"
        interval = "" if cell.low is None or cell.high is None else f"[{cell.low:.3f}, {cell.high:.3f}]"
        found = f"{cell.mean:>6.3f}  {interval:>14}  {cell.verdict}: {cell.reason}"
        lines.append(f"{cell.arm:{width}}  {cell.figure:12} {known:>9}  {found}")
    counts = {verdict: sum(cell.verdict == verdict for cell in cells) for verdict in (PASS, FAIL, UNDERPOWERED, ALONE)}
    return "\n".join([*lines, ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)])
