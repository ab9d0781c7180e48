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
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from isoscope.models.components import Group
from isoscope.objectives import Indices, Numbers
from isoscope.training.adam_parts import PARTS
from isoscope.training.allocation import NATS, bound

SETS = ("train", "validation")
TOTAL_SHARE = 0.005
"""All intervals together: |ΣA − ΔL| is at most this share of |ΔL|, or `NATS` if that is more."""
_WORDS = ("set", "estimator", "stack", "component", "part", "frequency", "context")


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
        super().__init__((*_STORED, "batch", "updates"))
        self._open = np.zeros(len(groups))
        self.blocks, self._where = blocks_of(groups)

    def add(self, sets: Sequence[Mapping[str, Any]]) -> None:
        """Add an interval of all sets, each with the values of `_STORED`."""
        for name, kind in _STORED.items():
            self._of[name].append(np.array([one[name] for one in sets], kind))
        self._of["batch"].append(self._open)
        self._open = np.zeros_like(self._open)

    def update(self, values: Numbers) -> None:
        """Add the minibatch allocation of an update to groups."""
        self._open = self._open + values
        self._of["updates"].append(np.bincount(self._where, values, len(self.blocks)).astype(np.float32))

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
        return super().state() | {"open": torch.from_numpy(self._open.copy())}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        super().restore(state)
        self._open = state["open"].cpu().numpy()


def tables(
    rows: Rows, groups: Sequence[Group], counts: Indices, ends: Indices, estimator: str
) -> dict[str, pd.DataFrame]:
    """Return the tables by name, as the module describes them; `ends` `[intervals]` are the intervals' last updates.

    `counts` `[G]` are the groups' single parameters. A run that ended before its first interval has no tables.
    """
    if not len(rows):
        return {}
    allocation = _allocation(rows, groups, counts, ends, estimator)
    found = {"closure": _closure(rows, ends, estimator)}
    if rows.by_update:
        allocation = pd.concat([allocation, _batch_rows(rows, groups, counts, ends)], ignore_index=True)
        found["minibatch"] = _by_update(rows)
    return found | {"allocation": typed(allocation)}


def _allocation(rows: Rows, groups: Sequence[Group], counts: Indices, ends: Indices, estimator: str) -> pd.DataFrame:
    folds, values = rows.stacked("folds"), rows.stacked("value")
    keys = _keys(groups, ends, SETS, estimator)
    deviations = folds.astype(np.float64).std(2, ddof=1) / np.sqrt(folds.shape[2])
    columns: dict[str, Any] = {"value": values.ravel(), "se": deviations.astype(np.float32).ravel()}
    columns |= {f"fold_{fold + 1}": folds[:, :, fold].ravel() for fold in range(folds.shape[2])}
    columns["parameters"] = np.tile(counts.astype(np.int32), len(ends) * len(SETS))
    columns |= {name: rows.stacked(name).ravel() for name in ("helping", "hurting", "largest")}
    parts = rows.stacked("parts")
    columns |= {name: parts[:, :, number].ravel() for number, name in enumerate(PARTS)}
    return pd.DataFrame(keys | columns)


def _batch_rows(rows: Rows, groups: Sequence[Group], counts: Indices, ends: Indices) -> pd.DataFrame:
    keys = _keys(groups, ends, ("batch",), "minibatch")
    columns = {"value": rows.stacked("batch").ravel(), "parameters": np.tile(counts.astype(np.int32), len(ends))}
    return pd.DataFrame(keys | columns)


def _keys(groups: Sequence[Group], ends: Indices, sets: Sequence[str], estimator: str) -> dict[str, Any]:
    """Return the key columns of a row per interval, set and group, in this order."""
    each = len(sets) * len(groups)
    keys: dict[str, Any] = {
        "start": np.repeat(np.append(0, ends[:-1]).astype(np.int32), each),
        "update": np.repeat(ends.astype(np.int32), each),
        "set": np.tile(np.repeat(np.array(sets), len(groups)), len(ends)),
        "estimator": estimator,
    }
    return keys | group_columns(groups, len(ends) * len(sets))


def group_columns(groups: Sequence[tuple[Any, ...]], times: int) -> dict[str, list[Any]]:
    """Return the columns of groups, or of blocks, which are their first fields: all of them, `times` over."""
    return {name: list(values) * times for name, values in zip(Group._fields, zip(*groups, strict=True), strict=False)}


def typed(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose words are dictionary-encoded and whose numbers of layers and heads may be missing."""
    kinds = dict.fromkeys(_WORDS, "category")
    kinds |= dict.fromkeys(("layer", "head"), "Int16") | dict.fromkeys(("helping", "hurting"), "Int32")
    return table.astype({name: kind for name, kind in kinds.items() if name in table})


def _closure(rows: Rows, ends: Indices, estimator: str) -> pd.DataFrame:
    """Return the closure of each set: its intervals, then all intervals together."""
    values, losses = _with_sum(rows.stacked("value")), rows.stacked("losses")
    together = np.stack([losses[0, :, 0], losses[-1, :, 1]], axis=-1)
    before, after = np.moveaxis(np.concatenate([losses, together[None]]), -1, 0)
    bounds = np.apply_along_axis(bound, -1, values)
    bounds[-1] = np.maximum(NATS, TOTAL_SHARE * np.abs(after - before)[-1])
    gaps = values.sum(-1) - (after - before)
    helping, hurting = (_with_sum(rows.stacked(name).sum(-1)) for name in ("helping", "hurting"))
    columns = {
        "start": np.concatenate([[0], ends[:-1], [0]])[:, None],
        "update": np.append(ends, ends[-1])[:, None],
        "set": np.array(SETS),
        "total": np.arange(len(values))[:, None] == len(ends),
        "before": before,
        "after": after,
        "change": after - before,
        "allocated": values.sum(-1),
        "gap": gaps,
        "absolute": np.abs(values).sum(-1),
        "bound": bounds,
        "closed": np.abs(gaps) <= bounds,
        "splits": _with_sum(rows.stacked("splits")),
        "helping": helping / np.maximum(1, helping + hurting),
        "estimator": np.array(estimator),
    }
    table = pd.DataFrame({name: np.broadcast_to(one, before.shape).T.ravel() for name, one in columns.items()})
    kinds = dict.fromkeys(("set", "estimator"), "category") | dict.fromkeys(("start", "update", "splits"), "int32")
    return table.astype(kinds)


def _with_sum(every: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the rows of all intervals, and their sum as a last row."""
    return np.concatenate([every, every.sum(0, keepdims=True)])


def blocks_of(groups: Sequence[Group]) -> tuple[list[tuple[str, int | None, str]], Indices]:
    """Return stack × layer × component, and the place of each group's among these."""
    blocks = [one[:3] for one in groups]
    known = {block: number for number, block in enumerate(dict.fromkeys(blocks))}
    return list(known), np.array([known[block] for block in blocks], np.int64)


def _by_update(rows: Rows) -> pd.DataFrame:
    values = np.stack(rows.by_update)
    update = np.repeat(np.arange(1, len(values) + 1, dtype=np.int32), len(rows.blocks))
    columns = {"update": update, **group_columns(rows.blocks, len(values)), "value": values.ravel()}
    return typed(pd.DataFrame(columns))
