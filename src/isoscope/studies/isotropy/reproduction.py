"""Compare anisotropy at the end of training with the published shares: the difference, the interval, the verdict."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from isoscope.base.paths import processed
from isoscope.platform.config.tree import flatten
from isoscope.platform.figures.numbers import count
from isoscope.platform.results.published import ALONE, INDISTINCT, UNDERPOWERED, agrees, published
from isoscope.platform.statistics.paired import FEWEST_SEEDS, Verdict, minimum_detectable_effect

PUBLISHED = published(Path(__file__).parent)
COMPONENTS, ROUNDING = PUBLISHED["metrics"], PUBLISHED["rounding"]
COLUMNS = ("arm", "metric", "published", "tolerance", "seeds", "mean", "sd", "low", "high", "detectable", "difference")


class Known(NamedTuple):
    """A published share, the tolerance for agreement, and the distance to another arm's nearest published share."""

    value: float
    tolerance: float
    nearest: float


def known_values(
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
    backbone = PUBLISHED["backbones"].get(params.get("model.encoder.checkpoint", ""), "")
    selection = str(params.get("penalty.selection", params["penalty.kind"]))
    arm = "selected" if selection == "c-ratio" else selection
    table = PUBLISHED["values"].get(backbone, {}).get(task, {})
    if arm not in table:
        return "no published value for this backbone, task and penalty"
    told = _differing(params | {"reproduction.last": last}, task, arm)
    if source is None:
        return f"no data in {processed(task)}; run: isoscope prepare {task}"
    named = source.get("name")
    of_glue = named == task or (named in PUBLISHED["glue"] and source.get("config") == task)
    if not (source["kind"] == "hub" and of_glue and source["splits"]["train"] == "train"):
        told.append(f"the data set {task} of GLUE (here {source.get('name') or source.get('path') or source['kind']})")
    if told:
        return f"published with other settings: {'; '.join(told)}"
    shares = {}
    for place, metric in enumerate(COMPONENTS):
        values = {name: row[place] for name, row in table.items()}
        nearest = min(abs(value - values[arm]) for name, value in values.items() if name != arm)
        shares[metric] = Known(values[arm], min(tolerance, nearest / 2), nearest)
    return shares


def asked_settings(task: str, arm: str) -> dict[str, Any]:
    """Return the settings of a published run, by dotted name."""
    penalty = {} if arm == "none" else PUBLISHED["penalty"]
    return {**PUBLISHED["settings"], **penalty, **PUBLISHED["arms"][arm], **PUBLISHED["tasks"][task]}


def _differing(found: dict[str, Any], task: str, arm: str) -> list[str]:
    """Return which settings of a run differ from those of the published run, as text."""
    asked, whole = asked_settings(task, arm), PUBLISHED["longest"]
    if found["training.schedule.epochs"] == found["training.epochs"]:
        found["training.schedule.epochs"] = None  # an equivalent setting
    sections = {name for name in asked if any(other.startswith(f"{name}.") for other in found)}
    found |= dict.fromkeys(sections, "set")
    told = [
        f"{name} {_shown(value)} (here {_shown(found.get(name))})"
        for name, value in asked.items()
        if found.get(name) != value
    ]
    if found["model.max_length"] < whole:
        told.append(f"whole texts (here truncated at model.max_length {found['model.max_length']})")
    return told


def _shown(value: Any) -> str:
    """Return a setting's value as in YAML."""
    return "null" if value is None else str(value)


def reproduction(
    averages: pd.DataFrame, known: Mapping[str, Mapping[str, Known] | str], *, confidence: float, power: float
) -> pd.DataFrame:
    """Compare every arm's shares over its last updates with the published shares. `known`: by arm.

    Columns: `COLUMNS`, verdict, reason. low and high: interval of our mean over seeds, by t (empty below 3 seeds).
    detectable: the true difference from the published value that this number of seeds would find to exceed the
    tolerance; without a published value, the mean that they would tell from 0. difference: ours minus the published.

    A published value is a rounded mean of five runs. The rounding and the standard error of that mean (from our own
    spread, because theirs was not published) widen the interval of the difference. Verdicts are those of `agrees`, and:

    - *indistinct*: published values of two arms are closer than their uncertainty.
    - *under-powered*: also with fewer than 3 seeds.
    - *ours alone*: there is no published value.
    """
    found = []
    for arm, metric in product(dict.fromkeys(averages["arm"]), COMPONENTS):
        rows = averages[(averages["arm"] == arm) & (averages["metric"] == f"step/{metric}")]
        if len(rows):
            of_arm = known[arm]
            of_metric = of_arm if isinstance(of_arm, str) else of_arm[metric]
            values = rows["value"].dropna()
            if lost := len(rows) - len(values):
                of_metric = f"{count(lost, 'seed')} without a value"
            if len(values):
                found.append((arm, metric, *_row(of_metric, values.to_numpy(), confidence, power)))
    table = pd.DataFrame(found, columns=[*COLUMNS, "verdict", "reason"])
    return table.astype({name: float for name in COLUMNS if name not in ("arm", "metric", "seeds")})


def _row(known: Known | str, values: Any, confidence: float, power: float) -> tuple[Any, ...]:
    n, mean = len(values), float(np.mean(values))
    sd = float(np.std(values, ddof=1)) if n > 1 else None
    half = effect = low = high = None
    if sd is not None and n >= FEWEST_SEEDS:
        half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * sd / n**0.5
        effect = sd * minimum_detectable_effect(n, tests=1, confidence=confidence, power=power)
        low, high = mean - half, mean + half
    if isinstance(known, str):
        return (None, None, n, mean, sd, low, high, effect, None, ALONE, known)
    difference = mean - known.value
    if effect is not None:
        effect = known.tolerance + ROUNDING + effect * (1 + n / PUBLISHED["runs"]) ** 0.5
    ours = (n, mean, sd, low, high, effect)
    return (known.value, known.tolerance, *ours, difference, *_verdict(difference, half, n, known))


def _verdict(difference: float, half: float | None, n: int, known: Known) -> Verdict:
    """Return the verdict and its reason. `half`: half the width of our mean's interval."""
    share = n / PUBLISHED["runs"]
    theirs = ROUNDING if half is None else ROUNDING + half * share**0.5
    if known.nearest <= 2 * theirs:
        why = f"another arm's published value is {known.nearest:.2g} away, less than their uncertainty"
        return Verdict(INDISTINCT, why)
    if half is None:
        return Verdict(UNDERPOWERED, f"{n} seed{'s' * (n != 1)}: no interval below {FEWEST_SEEDS}")
    return agrees(difference, ROUNDING + half * (1 + share) ** 0.5, known.tolerance)
