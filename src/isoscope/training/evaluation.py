"""Evaluate a split with an objective: its tally, and points and columns in the order of the rows."""

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.objectives import Batch, Indices, Objective, Place, Scored, Tally
from isoscope.training.ranks import Ranks

Array = np.ndarray[Any, Any]


def joined(ranks: Ranks, objective: Objective, part: Tally, stop: bool = False) -> tuple[Tally, bool]:
    """Return the tally over all processes, and whether any process was told to stop."""
    if ranks.size == 1:
        return part, stop
    stops, *vector = ranks.sum(np.array([stop, *part.vector()], np.float64))
    return objective.tally(np.array(vector)), bool(stops)


def to_device(batch: Batch, device: torch.device) -> dict[str, Tensor]:
    """Return a batch's arrays as tensors on `device`."""
    return {name: torch.from_numpy(array).to(device, non_blocking=True) for name, array in batch.items()}


def evaluate(
    model: Any,
    objective: Objective,
    split: str,
    *,
    device: torch.device,
    ranks: Ranks,
    places: Collection[Place] = (),
    columns: bool = False,
    rows: Indices | None = None,
) -> Scored:
    """Run a model over a split, or over `rows` of it, without dropout; every row is evaluated once.

    Rank r evaluates every world_size-th batch, so batches and their padding are the same for any number of processes.
    """
    all_rows = np.arange(objective.size(split)) if rows is None else rows
    position = np.zeros(objective.size(split), np.int64)
    position[all_rows] = np.arange(len(all_rows))
    starts = {place: _starts(objective.owners(split, all_rows, place)[0], len(all_rows)) for place in places}
    total = objective.tally()
    points: dict[Place, Array] = {}
    by_row: dict[str, Array] = {}
    plan = objective.plan(split, None, rows)
    mine = plan[ranks.rank :: ranks.size]
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for batch in mine or plan[:1]:  # a rank without a batch runs one to learn the shapes
            inputs = to_device(objective.batch(split, batch, None), device)
            forward = objective.forward(model, inputs, places, columns)
            at = position[batch if mine else batch[:0]]
            for name, values in forward.columns.items():
                _store(by_row, name, len(all_rows), at, values)
            for place, values in forward.points.items():
                _store(points, place, starts[place][-1], _positions(starts[place], at), values)
            total = total + forward.tally if mine else total
    model.train(was_training)
    if ranks.size > 1:  # each rank has its own rows, and zeros elsewhere
        by_row = {name: _sum(ranks, values) for name, values in by_row.items()}
        points = {place: _sum(ranks, values) for place, values in points.items()}
    return Scored(split, joined(ranks, objective, total)[0], points, by_row)


def _starts(owners: Indices, rows: int) -> Indices:
    """Return where each row's points begin, and the total number of points at the end, `[rows + 1]`."""
    return np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=rows))])


def _positions(starts: Indices, rows: Indices) -> Indices:
    """Return the positions of the points of `rows`, in the order of `rows`."""
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(starts[row], starts[row + 1]) for row in rows)])


def _store(into: dict[Any, Array], name: Any, size: int, at: Indices, values: Tensor) -> None:
    array = values.cpu().numpy()
    into.setdefault(name, np.zeros((size, *array.shape[1:]), array.dtype))[at] = array[: len(at)]


def _sum(ranks: Ranks, values: Array) -> Array:
    return ranks.sum(values.astype(np.float64)).astype(values.dtype)
