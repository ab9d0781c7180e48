"""Evaluate a split with an objective: its tally, and points and columns in the order of the rows."""

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.objectives import Batch, Indices, Objective, Place, Scored, vector_of
from isoscope.training.ranks import Ranks

Array = np.ndarray[Any, Any]


def to_device(batch: Batch, device: torch.device) -> dict[str, Tensor]:
    """Return a batch's arrays as tensors on `device`; to a GPU they are copied while it computes."""
    arrays = {name: torch.from_numpy(array) for name, array in batch.items()}
    if device.type == "cuda":  # only from pinned memory does a copy not wait
        arrays = {name: array.pin_memory() for name, array in arrays.items()}
    return {name: array.to(device, non_blocking=True) for name, array in arrays.items()}


def evaluate(
    model: Any,
    objective: Objective,
    split: str,
    ranks: Ranks,
    *,
    places: Collection[Place] = (),
    columns: bool = False,
    rows: Indices | None = None,
) -> Scored:
    """Run a model over a split, or over `rows` of it, without dropout; every row is evaluated once.

    Rank r evaluates every world_size-th batch, so batches and their padding are the same for any number of processes.
    """
    all_rows = np.arange(objective.size(split)) if rows is None else rows
    position = np.zeros(objective.size(split), np.int64)
    position[all_rows] = each = np.arange(len(all_rows))
    owners: dict[Any, Indices] = {place: objective.owners(split, all_rows, place)[0] for place in places}
    total = torch.from_numpy(objective.tally().vector()).to(ranks.device)
    arrays: dict[Any, Array] = {}
    plan = objective.plan(split, None, rows)
    mine = plan[ranks.rank :: ranks.size]
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for batch in mine or plan[:1]:  # a rank without a batch runs one to learn the shapes
            inputs = to_device(objective.batch(split, batch, None), ranks.device)
            forward = objective.forward(model, inputs, places, columns)
            at = position[batch if mine else batch[:0]]
            for name, values in (*forward.columns.items(), *forward.points.items()):
                _store(arrays, name, owners.get(name, each), at, values)  # a column has a value per row
            total = total + vector_of(forward.tally, ranks.device) if mine else total
    model.train(was_training)
    if ranks.size > 1:  # each rank has its own rows, and zeros elsewhere
        arrays = {name: ranks.sum(values.astype(np.float64)).astype(values.dtype) for name, values in arrays.items()}
    points = {place: arrays.pop(place) for place in owners}
    return Scored(split, objective.tally(ranks.sum(total.cpu().numpy())), points, arrays)


def _store(into: dict[Any, Array], name: Any, owners: Indices, rows: Indices, values: Tensor) -> None:
    """Store the values of `rows`, in their order, at the places of their `owners`, which are ascending."""
    array = values.cpu().numpy()
    starts, ends = np.searchsorted(owners, rows), np.searchsorted(owners, rows, side="right")
    at = np.concatenate([np.zeros(0, np.int64), *map(np.arange, starts, ends)])
    into.setdefault(name, np.zeros((len(owners), *array.shape[1:]), array.dtype))[at] = array[: len(at)]
