"""Rows of loss change allocation: kept during training, part of its checkpoints, written as tidy tables at the end.

`allocation.parquet`: a row per interval, set and group.

- `start`, `update`: the interval's ends, in updates; `set`: train, validation, or batch (see below); `estimator`.
- `stack`, `layer`, `component`, `head`, `part`: the group (`models.components.Group`); empty where there is none.
- `value`: the allocation in nats of the set's mean loss; negative helps. `se`: its standard error over folds, with
  folds − 1 degrees of freedom. `fold_1` …: numbers by fold whose mean is the value (see `allocation.over_folds`).
- `parameters`: single parameters; of these, `helping` and `hurting` (the others did not move or have no gradient).
  `largest`: the largest allocation of a single parameter, 0 if none hurts.
- `gradient`, `momentum`, `decay`: parts of the value by AdamW's step, empty on longer intervals.

Rows of the estimator `minibatch` have the set `batch`, and the sum over the interval's updates of update · gradient of
the update's own batch: another quantity, which does not sum to a change of the loss.

`closure.parquet`: a row per interval and set, and a last row per set for all intervals together (`total`).

- `before`, `after`: mean loss in nats; `change`: their difference; `allocated`: ΣA; `gap`: allocated − change.
- `absolute`: Σ|A| over groups; `bound`: largest |gap| of a closed interval (`allocation.bound`; in total, half a per
  cent of |change| or 0.005 nats); `closed`; `splits`: parts of the line; `helping`: share of the moved parameters.

`minibatch.parquet`: update, stack, layer, component, value: the minibatch estimator at every update.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from isoscope.models.components import Group
from isoscope.objectives import Indices, Numbers
from isoscope.training.allocation import NATS, bound

SETS = ("train", "validation")
PARTS = ("gradient", "momentum", "decay")
"""Parts of an update of AdamW."""
TOTAL_SHARE = 0.005
"""All intervals together: |ΣA − ΔL| is at most this share of |ΔL|, or `NATS` if that is more."""
_KINDS = {
    **dict.fromkeys(("start", "update", "splits"), "int32"),
    **dict.fromkeys(("set", "estimator", "stack", "component", "part", "frequency", "context"), "category"),
    **dict.fromkeys(("layer", "head"), "Int16"),
}
"""Words are dictionary-encoded; numbers of layers and heads may be missing."""
_STORED: dict[str, Any] = {
    "value": np.float64,
    "folds": np.float32,
    "helping": np.int32,
    "hurting": np.int32,
    "largest": np.float32,
    "parts": np.float32,
    "losses": np.float64,
    "splits": np.int32,
}
"""What is known of a set's allocation over an interval: by group, by fold and group, counts, parts `[3, G]`; the mean
losses at both ends, and the parts of the line."""


class IntervalRows:
    """Rows of the intervals so far: lists of arrays by name, part of the run's checkpoints."""

    def __init__(self, names: Iterable[str]) -> None:
        self._of: dict[str, list[Any]] = {name: [] for name in names}

    def __len__(self) -> int:
        """Return the number of intervals."""
        return len(next(iter(self._of.values())))

    def append(self, **arrays: Any) -> None:
        """Add an array to the list of each name."""
        for name, array in arrays.items():
            self._of[name].append(array)

    def stacked(self, name: str) -> np.ndarray[Any, Any]:
        """Return the arrays of a name of all intervals, `[intervals, …]`."""
        return np.stack(self._of[name])

    def state(self) -> dict[str, Tensor]:
        """Return all rows as tensors."""
        return {name: torch.from_numpy(np.stack(values)) for name, values in self._of.items() if values}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Replace the rows by those of a state."""
        self._of = {name: [*state[name].cpu().numpy()] if name in state else [] for name in self._of}


class Rows(IntervalRows):
    """The rows so far by set. Fold numbers and parts are stored in fp32, values in fp64."""

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__((*_STORED, "batch", "updates", "open"))
        self._of["open"] = [np.zeros(len(groups))]  # the minibatch allocation since the last interval
        self.blocks, self._where = blocks_of(groups)

    def add(self, sets: Sequence[Mapping[str, Any]]) -> None:
        """Add an interval of all sets, each with the values of `_STORED`."""
        self.append(**{name: np.array([one[name] for one in sets], kind) for name, kind in _STORED.items()})
        self.append(batch=self._of["open"].pop())
        self.append(open=np.zeros_like(self._of["batch"][-1]))

    def update(self, values: Numbers) -> None:
        """Add the minibatch allocation of an update to groups."""
        self._of["open"][0] = self._of["open"][0] + values
        self.append(updates=np.bincount(self._where, values, len(self.blocks)).astype(np.float32))

    @property
    def by_update(self) -> list[Any]:
        """The minibatch allocation of each update to stack × layer × component; empty if it was not asked for."""
        return self._of["updates"]

    def metrics(self) -> dict[str, float]:
        """Return metrics: ΣA − ΔL over all intervals in nats, and the share of closed intervals, by set."""
        values, losses = self.stacked("value"), self.stacked("losses")
        gaps = values.sum(-1) - (losses[..., 1] - losses[..., 0])
        by_set = {"gap": gaps.sum(0), "closed": (np.abs(gaps) <= bound(values)).mean(0)}
        return {
            f"allocation/{name}_{what}": float(one[at]) for what, one in by_set.items() for at, name in enumerate(SETS)
        }


def tables(
    rows: Rows, groups: Sequence[Group], counts: Indices, ends: Indices, estimator: str
) -> dict[str, pd.DataFrame]:
    """Return the tables by name, as the module describes them; `ends` `[intervals]` are the intervals' last updates.

    `counts` `[G]` are the groups' single parameters. A run that ended before its first interval has no tables.
    """
    if not len(rows):
        return {}
    found = {"closure": _closure(rows, ends, estimator)}
    folds, parts, of_groups = rows.stacked("folds"), rows.stacked("parts"), named(groups)
    allocation = crossed(spans(ends), pd.DataFrame({"set": SETS, "estimator": estimator}), of_groups)
    allocation["value"] = rows.stacked("value").ravel()
    allocation["se"] = (folds.astype(np.float64).std(2, ddof=1) / np.sqrt(folds.shape[2])).astype(np.float32).ravel()
    for fold in range(folds.shape[2]):
        allocation[f"fold_{fold + 1}"] = folds[:, :, fold].ravel()
    allocation["parameters"] = np.tile(counts.astype(np.int32), len(ends) * len(SETS))
    for name in ("helping", "hurting", "largest"):
        allocation[name] = rows.stacked(name).ravel()
    for number, name in enumerate(PARTS):
        allocation[name] = parts[:, :, number].ravel()
    if rows.by_update:
        batch = crossed(spans(ends), pd.DataFrame({"set": ["batch"], "estimator": "minibatch"}), of_groups)
        batch["value"] = rows.stacked("batch").ravel()
        batch["parameters"] = np.tile(counts.astype(np.int32), len(ends))
        allocation = pd.concat([allocation, batch], ignore_index=True)
        updates = pd.DataFrame({"update": np.arange(1, len(rows.by_update) + 1)})
        found["minibatch"] = typed(crossed(updates, named(rows.blocks)).assign(value=rows.stacked("updates").ravel()))
    return found | {"allocation": typed(allocation).astype(dict.fromkeys(("helping", "hurting"), "Int32"))}


def spans(ends: Indices) -> pd.DataFrame:
    """Return the columns `start` and `update` of intervals; each begins where the one before it ends."""
    return pd.DataFrame({"start": np.append(0, ends[:-1]), "update": ends})


def named(groups: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    """Return the columns of groups, or of blocks, which are their first fields."""
    return pd.DataFrame(groups, columns=Group._fields[: len(groups[0])])


def crossed(*keys: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each combination of rows; the last table varies fastest."""
    return reduce(lambda one, other: one.merge(other, how="cross"), keys)


def typed(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the types of `_KINDS`."""
    return table.astype({name: kind for name, kind in _KINDS.items() if name in table})


def losses_and_gap(before: Any, after: Any, allocated: Any) -> dict[str, Any]:
    """Return the columns that compare allocations with the change of the loss."""
    change = after - before
    return {"before": before, "after": after, "change": change, "allocated": allocated, "gap": allocated - change}


def _closure(rows: Rows, ends: Indices, estimator: str) -> pd.DataFrame:
    """Return the closure of each set: its intervals, then all intervals together."""
    values, losses = _with_sum(rows.stacked("value")), rows.stacked("losses")
    together = np.stack([losses[0, :, 0], losses[-1, :, 1]], axis=-1)
    before, after = np.moveaxis(np.concatenate([losses, together[None]]), -1, 0)
    bounds = bound(values)
    bounds[-1] = np.maximum(NATS, TOTAL_SHARE * np.abs(after - before)[-1])
    helping, hurting = (_with_sum(rows.stacked(name).sum(-1)) for name in ("helping", "hurting"))
    compared = losses_and_gap(before, after, values.sum(-1))
    columns = {
        "start": np.concatenate([[0], ends[:-1], [0]])[:, None],
        "update": np.append(ends, ends[-1])[:, None],
        "set": np.array(SETS),
        "total": np.arange(len(values))[:, None] == len(ends),
        **compared,
        "absolute": np.abs(values).sum(-1),
        "bound": bounds,
        "closed": np.abs(compared["gap"]) <= bounds,
        "splits": _with_sum(rows.stacked("splits")),
        "helping": helping / np.maximum(1, helping + hurting),
        "estimator": np.array(estimator),
    }
    table = pd.DataFrame({name: np.broadcast_to(one, before.shape).T.ravel() for name, one in columns.items()})
    return typed(table)


def _with_sum(every: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the rows of all intervals, and their sum as a last row."""
    return np.concatenate([every, every.sum(0, keepdims=True)])


def blocks_of(groups: Sequence[Group]) -> tuple[list[tuple[str, int | None, str]], Indices]:
    """Return stack × layer × component, and the place of each group's among these."""
    blocks = [one[:3] for one in groups]
    known = {block: number for number, block in enumerate(dict.fromkeys(blocks))}
    return list(known), np.array([known[block] for block in blocks], np.int64)
