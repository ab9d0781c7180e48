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

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from isoscope.models.components import Group
from isoscope.objectives import Indices, Numbers
from isoscope.training.adam_parts import PARTS
from isoscope.training.allocation import NATS, Estimate, bound
from isoscope.training.packed import Counted

SETS = ("train", "validation")
TOTAL_SHARE = 0.005
"""All intervals together: |ΣA − ΔL| is at most this share of |ΔL|, or `NATS` if that is more."""
_GROUP = ("stack", "layer", "component", "head", "part")
_WORDS = ("set", "estimator", "stack", "component", "part", "frequency", "context")


class Interval(NamedTuple):
    """A set's allocation over an interval: by group, with fold numbers, counts, parts `[3, G]`, and the mean losses."""

    estimate: Estimate
    counted: Counted
    parts: Numbers
    before: float
    after: float
    splits: int


class Rows:
    """The rows so far. Fold numbers and parts are stored in fp32, values in fp64."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._of: dict[str, list[Any]] = {name: [] for name in (*_STORED, "batch", "updates")}
        self._open = np.zeros(len(groups))
        self._blocks, self._where = blocks_of(groups)

    def __len__(self) -> int:
        return len(self._of["value"])

    def add(self, sets: Sequence[Interval]) -> None:
        """Add an interval of all sets."""
        for name, (kind, of) in _STORED.items():
            self._of[name].append(np.array([of(one) for one in sets], kind))
        self._of["batch"].append(self._open)
        self._open = np.zeros_like(self._open)

    def update(self, values: Numbers) -> None:
        """Add the minibatch allocation of an update to groups."""
        self._open = self._open + values
        self._of["updates"].append(np.bincount(self._where, values, len(self._blocks)).astype(np.float32))

    def stacked(self, name: str) -> np.ndarray[Any, Any]:
        """Return a column of all intervals, `[intervals, sets, …]`."""
        return np.stack(self._of[name])

    @property
    def by_update(self) -> list[Any]:
        """The minibatch allocation of each update to stack × layer × component; empty if it was not asked for."""
        return self._of["updates"]

    def figures(self) -> dict[str, float]:
        """Return metrics: ΣA − ΔL over all intervals in nats, and the share of closed intervals, by set."""
        gaps = self.stacked("value").sum(-1) - (self.stacked("losses")[..., 1] - self.stacked("losses")[..., 0])
        bounds = np.apply_along_axis(bound, -1, self.stacked("value"))
        closed = (np.abs(gaps) <= bounds).mean(0)
        found = {f"allocation/{name}_gap": float(gap) for name, gap in zip(SETS, gaps.sum(0), strict=True)}
        return found | {f"allocation/{name}_closed": float(one) for name, one in zip(SETS, closed, strict=True)}

    def state(self) -> dict[str, Tensor]:
        """Return all rows as tensors."""
        stored = {name: torch.from_numpy(np.stack(values)) for name, values in self._of.items() if values}
        return stored | {"open": torch.from_numpy(self._open.copy())}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Replace the rows by those of a state."""
        arrays = {name: value.cpu().numpy() for name, value in state.items()}
        self._open = arrays.pop("open")
        self._of = {name: list(arrays.get(name, ())) for name in self._of}


_STORED: dict[str, tuple[Any, Any]] = {
    "value": (np.float64, lambda one: one.estimate.value),
    "folds": (np.float32, lambda one: one.estimate.folds),
    "helping": (np.int32, lambda one: one.counted.helping),
    "hurting": (np.int32, lambda one: one.counted.hurting),
    "largest": (np.float32, lambda one: one.counted.largest),
    "parts": (np.float32, lambda one: one.parts),
    "losses": (np.float64, lambda one: (one.before, one.after)),
    "splits": (np.int32, lambda one: one.splits),
}


def tables(
    rows: Rows, groups: Sequence[Group], counts: Indices, ends: Indices, estimator: str
) -> dict[str, pd.DataFrame]:
    """Return the tables by name, as the module describes them; `ends` `[intervals]` are the intervals' last updates.

    `counts` `[G]` are the groups' single parameters. A run that ended before its first interval has no tables.
    """
    if not len(rows):
        return {}
    starts = np.concatenate([[0], ends[:-1]])
    allocation = _allocation(rows, groups, counts, starts, ends, estimator)
    found = {"closure": _closure(rows, starts, ends, estimator)}
    if rows.by_update:
        allocation = pd.concat([allocation, _batch_rows(rows, groups, counts, starts, ends)], ignore_index=True)
        found["minibatch"] = _by_update(rows, groups)
    return found | {"allocation": typed(allocation)}


def _allocation(
    rows: Rows, groups: Sequence[Group], counts: Indices, starts: Indices, ends: Indices, estimator: str
) -> pd.DataFrame:
    folds, values = rows.stacked("folds"), rows.stacked("value")
    keys = _keys(groups, starts, ends, SETS, estimator)
    deviations = folds.astype(np.float64).std(2, ddof=1) / np.sqrt(folds.shape[2])
    columns: dict[str, Any] = {"value": values.ravel(), "se": deviations.astype(np.float32).ravel()}
    columns |= {f"fold_{fold + 1}": folds[:, :, fold].ravel() for fold in range(folds.shape[2])}
    columns["parameters"] = np.tile(counts.astype(np.int32), len(ends) * len(SETS))
    columns |= {name: rows.stacked(name).ravel() for name in ("helping", "hurting", "largest")}
    parts = rows.stacked("parts")
    columns |= {name: parts[:, :, number].ravel() for number, name in enumerate(PARTS)}
    return pd.DataFrame(keys | columns)


def _batch_rows(rows: Rows, groups: Sequence[Group], counts: Indices, starts: Indices, ends: Indices) -> pd.DataFrame:
    keys = _keys(groups, starts, ends, ("batch",), "minibatch")
    columns = {"value": rows.stacked("batch").ravel(), "parameters": np.tile(counts.astype(np.int32), len(ends))}
    return pd.DataFrame(keys | columns)


def _keys(
    groups: Sequence[Group], starts: Indices, ends: Indices, sets: Sequence[str], estimator: str
) -> dict[str, Any]:
    """Return the key columns of a row per interval, set and group, in this order."""
    each = len(sets) * len(groups)
    keys: dict[str, Any] = {
        "start": np.repeat(starts.astype(np.int32), each),
        "update": np.repeat(ends.astype(np.int32), each),
        "set": np.tile(np.repeat(np.array(sets), len(groups)), len(ends)),
        "estimator": estimator,
    }
    repeats = len(ends) * len(sets)
    return keys | {name: [getattr(one, name) for one in groups] * repeats for name in _GROUP}


def typed(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose words are dictionary-encoded and whose numbers of layers and heads may be missing."""
    kinds = dict.fromkeys(_WORDS, "category")
    kinds |= dict.fromkeys(("layer", "head"), "Int16") | dict.fromkeys(("helping", "hurting"), "Int32")
    return table.astype({name: kind for name, kind in kinds.items() if name in table})


def _closure(rows: Rows, starts: Indices, ends: Indices, estimator: str) -> pd.DataFrame:
    values, losses = rows.stacked("value"), rows.stacked("losses")
    helping, hurting = (rows.stacked(name).astype(np.int64) for name in ("helping", "hurting"))
    splits, found = rows.stacked("splits"), []
    for number, name in enumerate(SETS):
        of_set = values[:, number]
        for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
            before, after = losses[index, number]
            limit = bound(of_set[index])
            counts = helping[index, number], hurting[index, number]
            fields = (start, end, name, False, before, after, of_set[index], limit, splits[index, number])
            found.append(_closed(*fields, counts))
        before, after = losses[0, number, 0], losses[-1, number, 1]
        limit = max(NATS, TOTAL_SHARE * abs(after - before))
        counts = helping[:, number], hurting[:, number]
        fields = (0, ends[-1], name, True, before, after, of_set.sum(0), limit, splits[:, number].sum())
        found.append(_closed(*fields, counts))
    table = pd.DataFrame(found).assign(estimator=estimator)
    return table.astype({"set": "category", "estimator": "category"})


def _closed(
    start: int,
    end: int,
    name: str,
    total: bool,
    before: float,
    after: float,
    values: Numbers,
    limit: float,
    splits: int,
    counts: Sequence[Any],
) -> dict[str, Any]:
    helping, hurting = (int(np.sum(one)) for one in counts)
    gap = float(values.sum()) - (after - before)
    return {
        "start": np.int32(start),
        "update": np.int32(end),
        "set": name,
        "total": total,
        "before": before,
        "after": after,
        "change": after - before,
        "allocated": float(values.sum()),
        "gap": gap,
        "absolute": float(np.abs(values).sum()),
        "bound": limit,
        "closed": abs(gap) <= limit,
        "splits": np.int32(splits),
        "helping": helping / max(1, helping + hurting),
    }


def blocks_of(groups: Sequence[Group]) -> tuple[list[tuple[str, int | None, str]], Indices]:
    """Return stack × layer × component, and the place of each group's among these."""
    blocks = [(one.stack, one.layer, one.component) for one in groups]
    known = {block: number for number, block in enumerate(dict.fromkeys(blocks))}
    return list(known), np.array([known[block] for block in blocks], np.int64)


def _by_update(rows: Rows, groups: Sequence[Group]) -> pd.DataFrame:
    blocks, _ = blocks_of(groups)
    values = np.stack(rows.by_update)
    columns: dict[str, Any] = {"update": np.repeat(np.arange(1, len(values) + 1, dtype=np.int32), len(blocks))}
    for name, words in zip(("stack", "layer", "component"), zip(*blocks, strict=True), strict=True):
        columns[name] = list(words) * len(values)
    return typed(pd.DataFrame(columns | {"value": values.ravel()}))
