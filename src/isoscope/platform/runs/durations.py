"""How long runs take on this machine: times of recorded runs, and estimates for runs like them.

A run of n updates takes `fixed` + n × `each` seconds. Both come from the latest runs of this host on the same device.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from math import ceil, prod, sqrt
from socket import gethostname
from statistics import median
from typing import Any

from isoscope.base.paths import Project
from isoscope.platform.config.tree import NOT_IN_DIGEST
from isoscope.platform.runs.lines import FINISHED, TRAIN, Run, RunRecord
from isoscope.platform.runs.record import identities, read, worked, working_seconds
from isoscope.platform.runs.upkeep import size_of

# `seconds` of a run with the interval `low` to `high`; `runs`: how many recorded runs say so, 0: updates timed now;
# `size`: bytes of its output; `memory`: most megabytes in use on the whole machine meanwhile, 0: not recorded.
Estimate = dict[str, float]
# At most RECENT runs make an estimate. Fewer than FEW do not know their spread: the interval is WIDER times as wide.
# Alike are runs whose updates compute at most FAR times more or less.
RECENT, FEW, WIDER, FAR = 9, 3, 1.5, 4.0
# Settings that do not change the time of an update.
FREE = tuple(
    f"training.{name}"
    for name in (
        *("epochs", "budget", "fraction", "select", "patience", "learning_rate", "fusion_lr", "weight_decay"),
        *("adam_betas", "adam_epsilon", "clip_norm", "schedule"),
    )
)
# Settings that alike runs share, and those whose product grows as what an update computes: tokens × weights.
SHARED = ("model.encoder.kind", "model.encoder.checkpoint", "objective.kind", "penalty.kind", "training.precision")
SIZES = ("training.batch_size", "model.max_length", "model.encoder.layers", *2 * ("model.encoder.hidden_size",))


def timing(record: RunRecord) -> tuple[float, float]:
    """Return the `fixed` seconds of a finished run, before its first and after its last evaluation, and `each`."""
    seconds, evaluated = working_seconds(record) or 0.0, [one for one in record.metrics if "validation/" in one.name]
    updates, times = max((one.step for one in evaluated), default=0), [one.t for one in evaluated]
    updates -= ((record.author and record.author.began) or {}).get("step", 0)  # those of a shorter run
    if not updates:
        return seconds, 0.0
    between = sum(max(0, min(end, max(times)) - max(start, times[0])) for start, end in worked(record)) / 1000
    return seconds - between, between / updates


def updates_of(params: Mapping[str, Any], split: Mapping[str, Any]) -> int:
    """Return the most updates of a training run. `split`: facts of the train split, from its task's manifest."""
    kind, number = (params.get(f"training.budget.{one}") for one in ("kind", "number"))
    total: int = _in_epoch(params, split) * params["training.epochs"]
    return min(total, number or 0) if kind == "updates" else total


def epochs_of(params: Mapping[str, Any], split: Mapping[str, Any]) -> int:
    """Return the most epochs that a training run begins; `split`: as for `updates_of`."""
    return ceil(updates_of(params, split) / _in_epoch(params, split))


def _in_epoch(params: Mapping[str, Any], split: Mapping[str, Any]) -> int:
    return ceil(max(1, round(split["rows"] * params["training.fraction"])) / params["training.batch_size"])


def combined(parts: Sequence[tuple[tuple[float, float], float]], updates: int) -> Estimate:
    """Return the estimate for so many updates from timings, each with what an update computes in proportion to there.

    A ratio r changes the time of an update by a factor between 1 and r: small models wait for each operation, large
    models compute. The geometric mean is the estimate.
    """
    found = [[one + each * updates * by for by in (min(1, r), sqrt(r), max(1, r))] for (one, each), r in parts]
    middle, wider = median(one[1] for one in found), WIDER if len(parts) < FEW else 1.0
    return {
        "seconds": middle,
        "low": min(middle / wider, *(one[0] for one in found)),
        "high": max(middle * wider, *(one[2] for one in found)),
        "runs": len(parts),
        "size": 0,
        "memory": 0,
    }


def like(task: str | None, params: Mapping[str, Any]) -> tuple[Callable[[Run], bool], ...]:
    """Return which training runs make an estimate: of the same task with equal settings but `FREE`; else alike.

    Alike are a model and an objective of the same kinds with the same observers, whatever the task.
    """
    own, kinds, work = _facts(params)
    return (
        lambda one: one.stage == TRAIN and one.task == task and _facts(one.params)[0] == own,
        lambda one: one.stage == TRAIN and (of := _facts(one.params))[1] == kinds and 1 / FAR <= work / of[2] <= FAR,
    )


def _facts(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any], float]:
    """Return the settings of a training run but `FREE`, its kinds and observers, and what an update computes.

    The last is known up to a factor; sizes of a model that starts from another run count as 1.
    """
    own = {name: value for name, value in params.items() if name not in NOT_IN_DIGEST and not name.startswith(FREE)}
    names = (name.split(".") for name in own if name.startswith("training."))
    sizes = (float(one) for name in SIZES if isinstance(one := params.get(name), int | float) and one > 0)
    return own, [{name[1] for name in names if len(name) > 2}, *(params.get(name) for name in SHARED)], prod(sizes)


class History:
    """The runs that this machine has recorded, the newest first."""

    def __init__(self, project: Project) -> None:
        self.project, self._read = project, cache(read)
        self._runs = sorted(identities(project.records), key=lambda one: one.t, reverse=True)

    def latest(self, accept: Callable[[Run], bool], most: int = RECENT, **where: Any) -> list[RunRecord]:
        """Return the newest finished runs of this host that are accepted; `where`: their environment, None: any."""
        asked = {"host": gethostname()} | {name: value for name, value in where.items() if value is not None}
        # On a cluster most are of other hosts.
        files = (self.project.records / f"{run.digest}.jsonl" for run in islice(filter(accept, self._runs), 10 * most))
        made = ((one, one.author) for one in map(self._read, files) if one.status == FINISHED)
        return [
            *islice(
                (one for one, by in made if by and asked.items() <= {**by.environment, "host": by.host}.items()), most
            )
        ]

    def estimate(
        self,
        choices: Iterable[Callable[[Run], bool]],
        updates: int = 0,
        params: Mapping[str, Any] | None = None,
        **where: Any,
    ) -> Estimate | None:
        """Return the estimate from the runs of the first choice that has any; None without.

        `params`: settings of a training run of so many updates. `where`: as for `latest`.
        """
        for records in (self.latest(accept, **where) for accept in choices):
            if runs := [one.run for one in records if one.run]:
                ratios = [_facts(params)[2] / _facts(one.params)[2] if params else 1.0 for one in runs]
                sizes = [size_of(path) for one in runs if (path := self.project.runs / one.digest / "output").is_dir()]
                used = (
                    one.value
                    for record in records
                    for one in record.metrics
                    if one.name.endswith("system_memory_usage_megabytes")
                )
                known = combined([*zip(map(timing, records), ratios, strict=True)], updates)
                return known | {"size": median(sizes or [0]), "memory": max(used, default=0)}
        return None

    def past(self) -> dict[str, float]:
        """Return the median of |estimate − truth| / truth, and the number of uninterrupted runs with an estimate."""
        records = self.latest(lambda run: run.stage == TRAIN, RECENT**2)
        pairs = ((one.attempts[0].estimate, working_seconds(one)) for one in records if len(one.attempts) == 1)
        errors = [abs(guess["seconds"] / seconds - 1) for guess, seconds in pairs if guess and seconds]
        return {"runs": len(errors), "median_error": median(errors or [0])}
