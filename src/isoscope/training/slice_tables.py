"""Rows of the allocation by slice: kept during training, part of its checkpoints, written as tidy tables at the end.

A slice is a class of predicted tokens (`data.ngrams`) of a fixed set of sentences. Its loss is the summed loss
of its tokens over the tokens of all slices, so that slices add up to the set's mean loss. Slices without tokens have no
rows.

`slices.parquet`: a row per interval, set, slice and stack × layer × component.

- `start`, `update`: the interval's ends, in updates; `set`: train or validation; `frequency`, `context`: the slice.
- `stack`, `layer`, `component` (`models.components.Group`); `layer` is empty outside the layers.
- `value`: the allocation of the slice's loss in nats; negative helps.

`slices_closure.parquet`: a row per interval, set and slice.

- `tokens`: the slice's share of the set's tokens. `before`, `after`: the slice's loss; divided by `tokens`, it is the
  mean loss of the slice's own tokens. `change`: their difference; `allocated`: ΣA; `gap`: allocated − change.
- `bound`: largest |gap| of a closed slice (`allocation.bound`); `closed`; `estimator`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from isoscope.data.ngrams import CLASSES
from isoscope.models.components import Group
from isoscope.objectives import Indices, Numbers
from isoscope.training.allocation import bound
from isoscope.training.allocation_tables import SETS, IntervalRows, blocks_of, group_columns, typed


class SliceRows(IntervalRows):
    """The rows so far, in fp64: allocations `[sets, slices, blocks]` and losses `[sets, 2, slices]` by interval."""

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__(("values", "losses"))
        self.blocks, where = blocks_of(groups)
        self._to_blocks = np.eye(len(self.blocks))[where]

    def add(self, values: Sequence[Numbers], losses: Sequence[Numbers]) -> None:
        """Add an interval: by set, allocations to groups `[slices, G]` and losses at both ends `[2, slices]`."""
        self._of["values"].append(np.stack(values) @ self._to_blocks)
        self._of["losses"].append(np.stack(losses))


def slice_tables(rows: SliceRows, tokens: Numbers, ends: Indices, estimator: str) -> dict[str, pd.DataFrame]:
    """Return the tables by name, as the module describes them; none before the first interval.

    `tokens` `[sets, slices]`; `ends` `[intervals]` are the intervals' last updates.
    """
    if not len(rows):
        return {}
    values, losses = rows.stacked("values"), rows.stacked("losses")
    where = np.nonzero(np.broadcast_to(tokens > 0, values.shape[:3]))
    keys = _keys(where, ends)
    own = values[where]
    before, after = losses[where[0], where[1], :, where[2]].T
    allocated, bounds = own.sum(1), np.array([bound(one) for one in own])
    gaps = allocated - (after - before)
    closure: dict[str, Any] = {"tokens": (tokens / tokens.sum(1, keepdims=True))[where[1:]]}
    closure |= {"before": before, "after": after, "change": after - before, "allocated": allocated, "gap": gaps}
    closure |= {"bound": bounds, "closed": np.abs(gaps) <= bounds, "estimator": estimator}
    table = pd.DataFrame({name: np.repeat(one, len(rows.blocks)) for name, one in keys.items()})
    return {
        "slices": typed(table.assign(**group_columns(rows.blocks, len(own)), value=own.ravel())),
        "slices_closure": typed(pd.DataFrame(keys | closure)),
    }


def _keys(where: Sequence[Indices], ends: Indices) -> dict[str, Any]:
    """Return the key columns of rows at (interval, set, slice)."""
    interval, which, number = where
    starts = np.concatenate([[0], ends[:-1]])
    frequencies, contexts = (np.array(names)[number] for names in zip(*CLASSES, strict=True))
    return {
        "start": starts[interval].astype(np.int32),
        "update": ends[interval].astype(np.int32),
        "set": np.array(SETS)[which],
        "frequency": frequencies,
        "context": contexts,
    }
