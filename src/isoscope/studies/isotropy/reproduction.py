"""Compare our values with published values: the difference, the interval over seeds, and the verdict."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from isoscope.base.errors import InputError
from isoscope.base.paths import CHART, processed
from isoscope.platform.config.tree import flatten
from isoscope.platform.statistics.paired import FEWEST_SEEDS, minimum_detectable_effect
from isoscope.studies.published import (
    ALONE,
    FAIL,
    INDISTINCT,
    PASS,
    UNDERPOWERED,
    Reproduced,
    Reproducible,
    counted,
)

FILE = "reproduction.json"

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
"""Table 3 of Shrink the Longest (arXiv:2501.05502): shares of the batch's [CLS] matrix, raw and centred, by arm; means
of five runs. It is inferred which triple is the raw one."""
TABLE_2 = (
    "Task metrics have no published values here: Table 2 of Shrink the Longest (arXiv:2501.05502) is not readable."
)
BACKBONES = {
    "google-bert/bert-base-uncased": "bert",
    "bert-base-uncased": "bert",
    "FacebookAI/roberta-base": "roberta",
    "roberta-base": "roberta",
}
"""Checkpoint → its name in Table 3."""


RUNS, ROUNDING = 5, 0.0005
"""Number of runs in a published mean (the spread was not published), and the table's rounding."""

SETTINGS: Mapping[str, Any] = {
    "model.fusion.kind": "additive",
    "training.epochs": 10,
    "training.budget": None,
    "training.fraction": 1.0,
    "training.batch_size": 64,
    "training.bucket": 1,
    "training.adam_betas": [0.9, 0.999],
    "training.adam_epsilon": 1e-8,
    "training.clip_norm": None,
    "training.schedule.kind": "cosine",
    "training.schedule.warmup": 0.1,
    "training.schedule.epochs": None,
    "training.patience": None,
    "training.freeze": None,
    "training.precision": "fp32",
    "training.watch.layer": -1,
    "training.watch.vectors": "first",
    "reproduction.last": 0.3,
}
"""Settings that all published runs share: from the paper, or from its code if the paper does not state them."""
GLUE = ("glue", "nyu-mll/glue")
RATES = {"mrpc": (8e-5, 8e-6), "cola": (5e-5, 5e-6)}
"""Learning rate and weight decay by task."""
SOURCES = {
    task: [{"kind": "hub", "name": task}, *({"kind": "hub", "name": name, "config": task} for name in GLUE)]
    for task in RATES
}
"""Accepted sources of the two tasks."""
LONGEST = 128
"""Maximum length in tokens that no text of the two tasks exceeds; the published runs truncate at 512."""
_PENALTY = {
    "penalty.kind": "persistent_entropy",
    "penalty.clouds": "class",
    "penalty.k": None,
    "penalty.in_cluster": 0.0,
    "penalty.weight": 1.0,
    "penalty.warmup": 0.0,
    "penalty.points.layer": -1,
    "penalty.points.vectors": "first",
    "penalty.points.most": None,
}
PENALTIES: Mapping[str, Mapping[str, Any]] = {
    "none": {"penalty.kind": "none"},
    "selected": _PENALTY | {"penalty.selection": "c-ratio"},
    "all": _PENALTY | {"penalty.selection": "all"},
}
"""Settings of each published arm."""


class Known(NamedTuple):
    """A published share, the tolerance for agreement, and the distance to another arm's nearest published share."""

    value: float
    tolerance: float
    nearest: float


class Cell(NamedTuple):
    """A published value and ours."""

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
    """Minimum detectable effect: the true difference from the published value that this number of seeds would find."""
    difference: float | None
    """Our value minus the published value."""
    verdict: str
    reason: str


def published(
    run: Mapping[str, Any], source: Mapping[str, Any] | None, *, last: float, tolerance: float
) -> dict[str, Known] | str:
    """Return the published values for a run's backbone, task and penalty, by metric; or the reason why there are none.

    - `run`: contents of its config.yaml.
    - `source`: source of its data (None: unknown).
    - `last`: share of updates over which our values are averaged.

    Only a run with the published settings has published values. The tolerance for agreement is the smaller of
    `tolerance` and half the distance to the nearest arm's published value: a value that could be another arm's shows
    nothing.
    """
    params, task = flatten(run["params"]), run["task"]
    backbone = BACKBONES.get(params.get("model.encoder.checkpoint", ""), "")
    selection = str(params.get("penalty.selection", params["penalty.kind"]))
    arm = "selected" if selection == "c-ratio" else selection
    if (backbone, task) not in _TABLE_3 or arm not in ARMS:
        return "no published value for this backbone, task and penalty"
    rate, decay = RATES[task]
    asked = {**SETTINGS, **PENALTIES[arm], "training.learning_rate": rate, "training.weight_decay": decay}
    found = params | {"reproduction.last": last}
    if found["training.schedule.epochs"] == found["training.epochs"]:
        found["training.schedule.epochs"] = None  # an equivalent setting
    found |= {name: "set" for name in asked if any(other.startswith(f"{name}.") for other in params)}
    told = [
        f"{name} {_shown(value)} (here {_shown(found.get(name))})"
        for name, value in asked.items()
        if found.get(name) != value
    ]
    if params["model.max_length"] < LONGEST:
        told.append(f"whole texts (here truncated at model.max_length {params['model.max_length']})")
    if source is None:
        return f"no data in {processed(task)}; run: isoscope prepare {task}"
    if not any(source.items() >= one.items() and source["splits"]["train"] == "train" for one in SOURCES[task]):
        told.append(f"the data set {task} of GLUE (here {source.get('name') or source.get('path') or source['kind']})")
    if told:
        return f"published with other settings: {'; '.join(told)}"
    shares = {}
    for place, figure in enumerate(COMPONENTS):
        values = dict(zip(ARMS, (row[place] for row in _TABLE_3[backbone, task]), strict=True))
        nearest = min(abs(value - values[arm]) for other, value in values.items() if other != arm)
        shares[figure] = Known(values[arm], min(tolerance, nearest / 2), nearest)
    return shares


def _shown(value: Any) -> str:
    """Return a setting's value as in YAML."""
    return "null" if value is None else str(value)


def reproduction(
    averages: pd.DataFrame, known: Mapping[str, Mapping[str, Known] | str], *, confidence: float, power: float
) -> list[Cell]:
    """Compare every arm's shares over its last updates with the published shares. `known`: by arm.

    A published value is a rounded mean of five runs. `ROUNDING` and the standard error of that mean (from our own
    spread, because theirs was not published) widen the interval of the difference. Verdicts:

    - *pass*: the whole interval is within the tolerance.
    - *fail*: the whole interval is outside the tolerance.
    - *indistinct*: published values of two arms are closer than their uncertainty.
    - *under-powered*: none of these, or fewer than 3 seeds.
    - *ours alone*: there is no published value.
    """
    found = []
    for arm, figure in product(dict.fromkeys(averages["arm"]), COMPONENTS):
        rows = averages[(averages["arm"] == arm) & (averages["figure"] == f"step/{figure}")]
        if len(rows):
            of_arm = known[arm]
            of_figure = of_arm if isinstance(of_arm, str) else of_arm[figure]
            found.append(_cell(arm, figure, of_figure, rows["value"].to_numpy(), confidence, power))
    return found


def _cell(arm: str, figure: str, known: Known | str, values: Any, confidence: float, power: float) -> Cell:
    n, mean = len(values), float(np.mean(values))
    sd = float(np.std(values, ddof=1)) if n > 1 else None
    half = effect = low = high = None
    if sd is not None and n >= FEWEST_SEEDS:
        half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * sd / n**0.5
        effect = sd * minimum_detectable_effect(n, tests=1, confidence=confidence, power=power)
        low, high = mean - half, mean + half
    ours = (n, mean, sd, low, high, effect)
    if isinstance(known, str):
        return Cell(arm, figure, None, None, *ours, None, ALONE, known)
    difference = mean - known.value
    return Cell(arm, figure, known.value, known.tolerance, *ours, difference, *_verdict(difference, half, n, known))


def _verdict(difference: float, half: float | None, n: int, known: Known) -> tuple[str, str]:
    """Return the verdict and its reason. `half`: half the width of our mean's interval."""
    theirs = ROUNDING if half is None else ROUNDING + half * (n / RUNS) ** 0.5
    if known.nearest <= 2 * theirs:
        return INDISTINCT, f"another arm's published value is {known.nearest:.2g} away, less than their uncertainty"
    if half is None:
        return UNDERPOWERED, f"{n} seed{'s' * (n != 1)}: no interval below {FEWEST_SEEDS}"
    both = ROUNDING + half * (1 + n / RUNS) ** 0.5
    if abs(difference) - both > known.tolerance:
        return FAIL, f"the whole interval is more than {known.tolerance:.2g} from the published mean"
    if abs(difference) + both <= known.tolerance:
        return PASS, f"the whole interval is within {known.tolerance:.2g} of the published mean"
    return UNDERPOWERED, f"the interval does not decide whether it is within {known.tolerance:.2g}"


def read(folder: Path) -> list[Cell]:
    """Read the cells that `isoscope chart` wrote into `folder`. Raises `InputError` if they are missing or damaged."""
    again = f"run: isoscope chart {folder.parent.name}"
    try:
        return [Cell(**cell) for cell in json.loads((folder / FILE).read_text("utf-8"))]
    except FileNotFoundError:
        raise InputError(f"{folder / FILE}: no such file; {again}") from None
    except (ValueError, TypeError):
        raise InputError(f"{folder / FILE}: not what isoscope chart wrote; {again}") from None


def as_text(cells: Sequence[Cell]) -> str:
    """Format the cells as lines for a terminal, with the count of each verdict."""
    if not cells:
        return "no runs: the study has no seeds, or its runs do not measure anisotropy (set training.watch)"
    width = max(len(cell.arm) for cell in cells)
    lines = [f"{'arm':{width}}  {'figure':12} {'published':>9}  {'ours':>6}  {'interval':>14}  verdict"]
    for cell in cells:
        known = "" if cell.published is None else f"{cell.published:.3f}"
        interval = "" if cell.low is None or cell.high is None else f"[{cell.low:.3f}, {cell.high:.3f}]"
        found = f"{cell.mean:>6.3f}  {interval:>14}  {cell.verdict}: {cell.reason}"
        lines.append(f"{cell.arm:{width}}  {cell.figure:12} {known:>9}  {found}")
    lines += [TABLE_2] * any(cell.published is not None for cell in cells)
    return "\n".join([*lines, counted([cell.verdict for cell in cells])])


def _reproduced(folder: Path) -> Reproduced:
    cells = read(folder / CHART)
    return Reproduced([cell._asdict() for cell in cells], as_text(cells), any(cell.verdict == FAIL for cell in cells))


REPRODUCIBLE = Reproducible(lambda study, _: bool(study.looked_at("chart").seeds), _reproduced)
