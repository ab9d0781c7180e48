"""Published figures beside ours: the difference, the interval over seeds, and whether they agree."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from isoscope.analysis.statistics import FEWEST_SEEDS, minimum_detectable_effect
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
triple is the raw one is inferred."""
TABLE_2 = "The source's table of task metrics has never been readable: ours stand alone."
BACKBONES = {
    "bert": ("google-bert/bert-base-uncased", "bert-base-uncased"),
    "roberta": ("FacebookAI/roberta-base", "roberta-base"),
}


UPDATES = {"batch_size": 64, "epochs": 10}
"""Settings of training without which shares of a batch are other quantities."""


class Known(NamedTuple):
    """A published share, and the largest difference from it that is agreement."""

    value: float
    tolerance: float


class Cell(NamedTuple):
    """One published figure beside ours."""

    arm: str
    figure: str
    published: float | None
    tolerance: float | None
    seeds: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    """Interval of our mean over seeds, by t; None below 3 seeds."""
    detectable: float | None
    """Minimum detectable effect: the true difference from the published figure that so many seeds would find."""
    difference: float | None
    """Ours less the published one."""
    verdict: str
    reason: str


def published(run: Mapping[str, Any], *, tolerance: float) -> dict[str, Known] | str:
    """The source's figures for a run's backbone, task and penalty, by figure; or why it has none.

    `run`: what its config.yaml holds. Agreement is a difference of at most `tolerance`, and of half the way to the next
    arm's published figure: what could as well be another arm's shows nothing.
    """
    model, training = run["params"]["model"], run["params"]["training"]
    checkpoint, task = model["encoder"].get("checkpoint"), run["task"]
    backbone = next((one for one, names in BACKBONES.items() if checkpoint in names), None)
    arm = run["axes"].get("penalty")
    if backbone is None or (backbone, task) not in _TABLE_3 or arm not in ARMS or model["fusion"]["kind"] != "additive":
        return "nothing was published for this backbone, task and arm"
    for name, value in UPDATES.items():
        if training[name] != value:
            return f"published with training.{name} {value}, trained with {training[name]}"
    found = {}
    for place, figure in enumerate(COMPONENTS):
        values = dict(zip(ARMS, (row[place] for row in _TABLE_3[backbone, task]), strict=True))
        gaps = [abs(value - values[arm]) for other, value in values.items() if other != arm]
        found[figure] = Known(values[arm], min(tolerance, *(gap / 2 for gap in gaps)))
    return found


def reproduction(
    averages: pd.DataFrame, known: Mapping[str, Mapping[str, Known] | str], *, confidence: float, power: float
) -> list[Cell]:
    """Every arm's shares over its last updates beside the published ones, `known` by arm.

    *pass*: the whole interval over seeds lies within the tolerance of the published mean. *fail*: it lies outside.
    *under-powered*: neither, or fewer than 3 seeds. *ours alone*: nothing to hold it against.
    """
    found = []
    for arm in dict.fromkeys(averages["arm"]):
        for figure in COMPONENTS:
            rows = averages[(averages["arm"] == arm) & (averages["figure"] == f"step/{figure}")]
            if len(rows):
                of_arm = known[arm]
                of_figure = of_arm if isinstance(of_arm, str) else of_arm[figure]
                found.append(_cell(arm, figure, of_figure, rows["value"].to_numpy(), confidence, power))
    return found


def _cell(arm: str, figure: str, known: Known | str, values: Any, confidence: float, power: float) -> Cell:
    n, mean = len(values), float(np.mean(values))
    sd = float(np.std(values, ddof=1)) if n > 1 else None
    half = effect = None
    if sd is not None and n >= FEWEST_SEEDS:
        half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * sd / n**0.5
        effect = sd * minimum_detectable_effect(n, confidence=confidence, power=power)
    low, high = (None, None) if half is None else (mean - half, mean + half)
    if isinstance(known, str):
        return Cell(arm, figure, None, None, n, mean, sd, low, high, effect, None, ALONE, known)
    difference = mean - known.value
    if half is None:
        verdict, reason = UNDERPOWERED, f"{n} seed{'s' * (n != 1)}: no interval below {FEWEST_SEEDS}"
    elif abs(difference) - half > known.tolerance:
        verdict, reason = FAIL, f"the whole interval is further than {known.tolerance:.2g} from the published mean"
    elif abs(difference) + half <= known.tolerance:
        verdict, reason = PASS, f"the whole interval is within {known.tolerance:.2g} of the published mean"
    else:
        verdict, reason = UNDERPOWERED, f"the interval does not decide whether it is within {known.tolerance:.2g}"
    about = (arm, figure, known.value, known.tolerance, n, mean, sd, low, high, effect)
    return Cell(*about, difference, verdict, reason)


def read(folder: Path) -> list[Cell]:
    """The cells that `isoscope chart` wrote into `folder`. Raises `InputError` where it has not, or on damage."""
    try:
        return [Cell(**cell) for cell in json.loads((folder / FILE).read_text("utf-8"))]
    except FileNotFoundError:
        charted = "isoscope repro, which makes it of studies that dvc.yaml charts"
        raise InputError(f"{folder / FILE}: no such file; run: {charted}") from None
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
    if any(cell.published is not None for cell in cells):
        lines.append(TABLE_2)
    return "\n".join([*lines, ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)])
