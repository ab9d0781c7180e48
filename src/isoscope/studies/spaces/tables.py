"""The comparison `spaces`: the spaces of several studies' models on the same words, by seed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from isoscope.base.errors import InputError
from isoscope.base.workers import Over
from isoscope.data.word_table import WordTable, word_table
from isoscope.platform.outputs import chosen_checkpoint
from isoscope.platform.results.paired_comparison import Result, StudyRuns
from isoscope.states.choices import SPACES, SpaceSettings
from isoscope.states.space_tables import Compared, Named
from isoscope.states.space_tables import tables as tables_of
from isoscope.states.word_space import write_space
from isoscope.studies.spaces.models_against_seeds import couples, models_against_seeds
from isoscope.studies.spaces.states_over_training import over_training as similarity_over_training

WHOLE = SPACES._replace(max_length=10**6, batch_size=64)
"""Settings of a comparison of studies: sentences as long as the model takes."""
FILES = (
    *(f"{kept}/*/{name}" for kept in ("checkpoints", "snapshots") for name in ("model.safetensors", "config.json")),
    "checkpoints/*/tokenizer.json",
)


def tables(
    studies: Mapping[str, StudyRuns],
    *,
    processed: Callable[[str], Path],
    models: Mapping[str, Mapping[str, str]],
    text: Mapping[str, str],
    occurrences: int,
    per_sentence: int,
    seed: int,
    **options: Any,
) -> dict[str, pd.DataFrame]:
    """Return the tables of `of_runs` for arms of studies, on the sentences of a prepared task.

    `processed`: task → folder of its prepared data. Raises `InputError` for a column the data lack.
    """
    data = processed(text["task"])
    table = word_table(
        _sentences(data / f"{text['split']}.parquet", text["column"]),
        occurrences=occurrences,
        per_sentence=per_sentence,
        seed=seed,
        counted=_sentences(data / "train.parquet", text["column"]),
        origin=f"task {text['task']}, column {text['column']!r}",
    )
    runs = {name: _chosen(studies[model["study"]].arms[model["arm"]]) for name, model in models.items()}
    return of_runs(runs, table, seed=seed, **options)


def of_runs(
    runs: Mapping[str, Mapping[int, Path]],
    table: WordTable,
    *,
    over_training: int | None,
    power: float,
    margin: float,
    over: Over,
    **options: Any,
) -> dict[str, pd.DataFrame]:
    """Return the tables of `states.space_tables`, and `models_against_seeds`, of models (name → seed → checkpoint).

    With `over_training`, every n-th snapshot is compared too: a table `over_training`, see `states_over_training`.
    Spaces: each seed of each model, and one random-weights control of each model. Pairs:
    `models_against_seeds.couples`, and the twins. `options`: fields of `SpaceSettings`.
    """
    settings = WHOLE._replace(**{name: value for name, value in options.items() if name in WHOLE._fields})
    seeds = {name: [*own] for name, own in runs.items()}
    pairs = [(_called(*one), _called(*other)) for one, other in couples(seeds)]
    pairs += [(_twin(one), _twin(other)) for one, other in combinations(runs, 2)]
    with TemporaryDirectory() as place:
        spaces = dict(_spaces(runs, table, settings, Path(place)))
        found = tables_of(Compared(table, spaces, pairs), settings, over)
    apart = models_against_seeds(found["similarity"], seeds, confidence=settings.confidence, power=power, margin=margin)
    found |= {"models_against_seeds": apart}
    if over_training is not None:
        found["over_training"] = similarity_over_training(runs, table, settings, every=over_training, over=over)
    return found


def _sentences(file: Path, column: str) -> list[str]:
    known = pq.read_schema(file).names
    if column not in known:
        raise InputError(f"text.column: {file.name} has no column {column!r}; it has {', '.join(known)}")
    found: list[str] = pq.read_table(file, columns=[column])[column].to_pylist()
    return found


def _chosen(results: Mapping[int, Result]) -> dict[int, Path]:
    """Return the chosen checkpoint of each seed."""
    found = {}
    for seed, one in results.items():
        if (chosen := chosen_checkpoint(one.output.folder)) is None:
            raise InputError(
                f"{one.output.folder}/checkpoints: no checkpoint of the chosen epoch; train this run again"
            )
        found[seed] = chosen
    return found


def _called(name: str, seed: int) -> str:
    return f"{name}, seed {seed}"


def _twin(name: str) -> str:
    return f"{name}, random weights"


def _spaces(
    runs: Mapping[str, Mapping[int, Path]], table: WordTable, settings: SpaceSettings, place: Path
) -> Iterator[tuple[str, Named]]:
    """Write and yield the spaces of all seeds, and of a twin of each model, all with weights of their own."""
    from isoscope.models.encoder import TWIN_SEED, load_encoder, random_encoder

    for number, (name, own) in enumerate(runs.items()):
        first = next(iter(own.values()))
        every: Sequence[tuple[str, int | None, Path]] = (
            *((_called(name, seed), seed, folder) for seed, folder in own.items()),
            (_twin(name), None, first),
        )
        for called, seed, folder in every:
            model = random_encoder(folder, seed=TWIN_SEED + number) if seed is None else load_encoder(folder)
            space = write_space(place / called.replace(" ", "-"), model, folder, table, settings)
            yield called, Named(space, name, seed, twin=seed is None)
