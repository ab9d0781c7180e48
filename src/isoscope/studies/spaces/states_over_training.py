"""Similarity over training: each kept state of a run against the chosen checkpoints of other runs, and its own."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pandas as pd

from isoscope.base.errors import InputError
from isoscope.base.workers import Over
from isoscope.data.word_table import WordTable
from isoscope.platform.outputs import epochs_by_update, weights_by_update
from isoscope.states.choices import SpaceSettings
from isoscope.states.compared_items import ComparedItems, compared_items
from isoscope.states.similarity_tables import check_complete, equal_layers
from isoscope.states.word_space import Space, joined, write_space
from isoscope.studies.spaces.models_against_seeds import references

FOLLOWED = ("cka", "cca_held_out")
Cell = tuple[str, int]
"""A model and the seed of its run."""


class State(NamedTuple):
    """The weights of a run at an update, and the runs whose chosen checkpoints they are compared with."""

    cell: Cell
    update: int
    chosen: bool
    """Whether these are the weights of the chosen checkpoint."""
    weights: Path
    checkpoint: Path
    """The run's chosen checkpoint, which has the tokenizer."""
    others: tuple[Cell, ...]


def over_training(
    runs: Mapping[str, Mapping[int, Path]],
    table: WordTable,
    settings: SpaceSettings,
    *,
    every: int,
    over: Over,
) -> pd.DataFrame:
    """Return the similarity of layers of equal number of every n-th snapshot with chosen checkpoints.

    `runs`: name → seed → chosen checkpoint, in the run's output. The first snapshot and the chosen checkpoint are
    always compared. With what: see `models_against_seeds.references`.

    Columns: model, seed, other_model, other_seed, update, chosen (whether these are the weights of the chosen
    checkpoint), and those of `similarity_tables.equal_layers`, with the intervals' confidence. Raises `InputError` for
    a run without snapshots, and as `space_tables.tables`.
    """
    from isoscope.models.encoder import load_encoder

    states = [*_states(runs, every)]
    with TemporaryDirectory(ignore_cleanup_errors=True) as place:  # a stopped process may still write
        ends = {}
        for number, one in enumerate(state for state in states if state.chosen):
            model = load_encoder(one.checkpoint)
            ends[one.cell] = write_space(Path(place) / str(number), model, one.checkpoint, table, settings)
        on = compared_items(table, joined(table, [*ends.values()]), probe=settings.probe, seed=settings.seed)[0]
        given: dict[str, Any] = {"table": table, "on": on, "settings": settings}
        found = pd.concat(over(partial(_compared, ends=ends, place=place, **given), states, "over training"))
    check_complete(found)
    return found.assign(confidence=settings.confidence).reset_index(drop=True)


def _states(runs: Mapping[str, Mapping[int, Path]], every: int) -> Iterator[State]:
    """Yield the states of all runs. Raises `InputError` for a run without snapshots."""
    pairs = references({name: [*own] for name, own in runs.items()})
    for name, own in runs.items():
        for seed, checkpoint in own.items():
            output = checkpoint.parents[1]
            if not (output / "snapshots").is_dir():
                raise InputError(
                    f"{output}: {name}, seed {seed} has no snapshots; train it with training.snapshots.steps: powers, "
                    "or set over_training: null"
                )
            updates = {epoch: update for update, epoch in epochs_by_update(output).items()}
            end, kept = updates[int(checkpoint.name.removeprefix("epoch-"))], weights_by_update(output)
            others = tuple(other for one, other in pairs if one == (name, seed))
            for update in sorted({*[*kept][::every], end}):
                yield State((name, seed), update, update == end, kept[update], checkpoint, others)


def _compared(
    state: State,
    *,
    ends: Mapping[Cell, Space],
    place: str,
    table: WordTable,
    on: ComparedItems,
    settings: SpaceSettings,
) -> pd.DataFrame:
    """Return the rows of a state. Its space is removed at once: those of all snapshots would fill a disk."""
    import torch

    from isoscope.models.encoder import load_encoder

    torch.set_num_threads(1)  # the other cores have states of their own
    about = {"model": state.cell[0], "seed": state.cell[1], "update": state.update, "chosen": state.chosen}
    parts = []
    with TemporaryDirectory(dir=place) as own:
        space = write_space(Path(own) / "space", load_encoder(state.weights), state.checkpoint, table, settings)
        for other in state.others:
            rows = equal_layers(space, ends[other], on, settings, FOLLOWED)
            parts.append(rows.assign(**about, other_model=other[0], other_seed=other[1]))
    return pd.concat(parts)
