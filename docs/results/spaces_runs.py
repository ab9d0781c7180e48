"""Compare the encoders of the page on dynamics: `python docs/results/spaces_runs.py TEXT FOLDER`.

FOLDER: .isoscope/runs of the project that trained the models (profile dynamics or dynamics_spaces): masked and causal
models of half the depth, and the encoders of translation models, all of two layers. Their checkpoints are found by the
digests in docs/results/spaces/checkpoints.json. TEXT: sentences (txt, csv, tsv, jsonl or parquet), or a treebank
(parquet with tokens and upos). Writes docs/results/spaces/<name>/ (`--name`), or into another folder (`--to`):
contextuality.parquet, by_frequency.parquet, pairs.parquet, similarity.parquet, counts.parquet, about.json, and of a
treebank by_part_of_speech.parquet.

- `--only over_training` makes over_training.parquet alone, of fewer words.
- `--only quoted` makes quoted.parquet alone: CKA of the last layers, with a null of 200 permutations.
- `--table untied` (scaled, sinusoidal): masked and translation models with other tables; FOLDER is then the project
  with the profile dynamics_tables. Of the similarities, CKA alone is stored.
- `--other NAME=FOLDER` adds a checkpoint; the others are then those of the first seed. Of fewer words.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from collect import told
from threadpoolctl import threadpool_limits

from isoscope.base.errors import InputError
from isoscope.base.parquet import write_parquet
from isoscope.base.workers import Over, with_bar, workers
from isoscope.data.checkpoints import checkpoint_digest
from isoscope.data.plain import read_tagged_texts
from isoscope.data.word_table import WordTable, word_table
from isoscope.models.encoder import load_encoder
from isoscope.states.choices import SpaceSettings
from isoscope.states.compared_items import ComparedItems, compared_items
from isoscope.states.similarity_tables import equal_layers
from isoscope.states.word_space import Space, joined, write_space
from isoscope.studies.spaces import self_sim_by_class
from isoscope.studies.spaces.states_over_training import Cell, over_training
from isoscope.studies.spaces.tables import WHOLE, of_runs
from isoscope.studies.spaces.told_apart import couples

HERE = Path(__file__).parent
TABLE_ARMS = {"MLM": "readers/masked", "MT": "translators/translation"}
"""Model → study and objective, in the profile dynamics_tables."""
SEEDS = (0, 1, 2)
SAMPLE: dict[str, Any] = {"occurrences": 50_000, "per_sentence": 25, "seed": 0}
FEWER, EVERY = 12_000, 2
"""Words of the tables over training and with another checkpoint; which snapshots."""
QUOTED, MORE = ("cka",), 200
"""Measures that the page quotes, and permutations of their null."""
OPTIONS: dict[str, Any] = {
    "probe": "words",
    "pooling": "mean",
    "permutations": 20,
    "items": 1000,
    "neighbours": 10,
    "components": None,
    "draws": 200,
    "histogram": 100_000,
    "over_training": None,
    "seed": 0,
    "confidence": 0.95,
    "power": 0.8,
    "margin": 0.01,
}
SETTINGS = WHOLE._replace(**{name: value for name, value in OPTIONS.items() if name in WHOLE._fields})


def checkpoints(store: Path, seeds: Sequence[int]) -> dict[str, dict[int, Path]]:
    """Return the chosen checkpoint of each model's seeds, found by its digest among the runs in `store`."""
    stored = {checkpoint_digest(folder)[:12]: folder for folder in store.glob("*/output/checkpoints/*")}
    wanted = json.loads((HERE / "spaces" / "checkpoints.json").read_text("utf-8"))
    found = {model: {seed: stored.get(of[str(seed)]) for seed in seeds} for model, of in wanted.items()}
    if lacking := [f"{model} seed {seed}" for model, of in found.items() for seed, one in of.items() if one is None]:
        raise InputError(f"{store}: lacks {', '.join(lacking)}; train them: isoscope profile dynamics_spaces")
    return found


def of_tables(project: Path, table: str) -> dict[str, dict[int, Path]]:
    """Return the chosen checkpoints of the masked and translation models with other tables, from their project."""
    return {
        model: {seed: _only(project / "models", f"{arm}-{table}/seed-{seed}/checkpoints/*") for seed in SEEDS}
        for model, arm in TABLE_ARMS.items()
    }


def _only(folder: Path, pattern: str) -> Path:
    runs = [*folder.glob(pattern)]
    if len(runs) != 1:
        raise InputError(f"{folder}/{pattern}: no such finished run; train it first")
    return runs[0]


def kept(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return what the page is made of: no words of a text, and values without each group for layers of equal number."""
    similarity = tables["similarity"]
    frequencies, parts_of_speech = (view.table(tables)[0] for view in self_sim_by_class.VIEWS)
    judged = (similarity["layer"] == similarity["other_layer"]) & ~similarity["twin"]
    found = {
        "contextuality": tables["contextuality"],
        "by_frequency": frequencies,
        "pairs": tables["pairs"],
        "similarity": similarity.assign(without=similarity["without"].where(judged, None)),
        "counts": tables["counts"],
    }
    return found | ({"by_part_of_speech": parts_of_speech} if len(parts_of_speech) else {})


def quoted_measures(similarity: pd.DataFrame) -> pd.DataFrame:
    """Return CKA without the jackknife's values: of models with other tables, the page shows no more."""
    return similarity[similarity["measure"].isin(QUOTED)].drop(columns="without").reset_index(drop=True)


def alone(runs: Mapping[str, Mapping[int, Path]], table: WordTable, over: Over) -> pd.DataFrame:
    """Return the table `over_training`, without the others."""
    return over_training(runs, table, SETTINGS, every=EVERY, over=over)


def quoted(runs: Mapping[str, Mapping[int, Path]], table: WordTable, over: Over) -> pd.DataFrame:
    """Return the measures that the page quotes, of the last layers, with more permutations."""
    settings = SETTINGS._replace(permutations=MORE)
    cells = [(name, seed) for name, own in runs.items() for seed in own]
    pairs = couples({name: [*own] for name, own in runs.items()})
    with TemporaryDirectory() as place:
        spaces = {}
        for number, (name, seed) in enumerate(cells):
            checkpoint = runs[name][seed]
            folder = Path(place) / str(number)
            spaces[name, seed] = write_space(folder, load_encoder(checkpoint), checkpoint, table, settings)
        on = compared_items(table, joined(table, [*spaces.values()]), probe=settings.probe, seed=settings.seed)
        return pd.concat(over(partial(_quoted, spaces, on, settings), pairs, "quoted"), ignore_index=True)


def _quoted(
    spaces: Mapping[Cell, Space], on: Sequence[ComparedItems], settings: SpaceSettings, pair: tuple[Cell, Cell]
) -> pd.DataFrame:
    one, other = pair
    found = pd.concat([equal_layers(spaces[one], spaces[other], items, settings, QUOTED, last=True) for items in on])
    return found.assign(model=one[0], seed=one[1], other_model=other[0], other_seed=other[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="sentences")
    parser.add_argument("store", type=Path, help="folder of runs by digest")
    parser.add_argument("--column", help="column of the text")
    parser.add_argument("--counted", type=Path, help="training sentences, for the frequencies of forms")
    parser.add_argument("--name", required=True, help="name of the text")
    parser.add_argument("--table", choices=["untied", "scaled", "sinusoidal"], help="models with other tables")
    parser.add_argument("--other", metavar="NAME=FOLDER", help="another checkpoint")
    parser.add_argument("--only", choices=["over_training", "quoted"], help="make this table alone")
    parser.add_argument("--to", type=Path, default=HERE / "spaces", help="folder to write to")
    arguments = parser.parse_args()
    texts = read_tagged_texts(arguments.text, column=arguments.column)
    counted = arguments.counted and read_tagged_texts(arguments.counted, column=arguments.column)
    sample = SAMPLE | ({"occurrences": FEWER} if arguments.only == "over_training" or arguments.other else {})
    table = word_table(
        texts.table["sentence"].to_pylist(),
        counted=counted and counted.table["sentence"].to_pylist(),
        tagged=texts.tagged,
        **sample,
    )
    if arguments.table:
        runs = of_tables(arguments.store, arguments.table)
    else:
        runs = checkpoints(arguments.store, SEEDS[:1] if arguments.other else SEEDS)
    if arguments.other:
        name, _, folder_of = arguments.other.partition("=")
        runs[name] = {SEEDS[0]: Path(folder_of)}
    with threadpool_limits(1), workers(None, key="cores") as spread:
        over = with_bar(spread, lambda: None, arguments.name)
        if arguments.only:
            make = {"over_training": alone, "quoted": quoted}[arguments.only]
            tables = {arguments.only: make(runs, table, over).drop(columns="without")}
        else:
            tables = kept(of_runs(runs, table, over=over, **OPTIONS))
            if arguments.table:
                tables["similarity"] = quoted_measures(tables["similarity"])
    folder = arguments.to / arguments.name
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        write_parquet(rows, folder / f"{name}.parquet")
    about = {"text": texts.digest, "sample": sample, "options": OPTIONS, "sentences": len(table.texts)}
    about["counted"] = counted and counted.digest
    about["checkpoints"] = {
        name: {seed: checkpoint_digest(one)[:12] for seed, one in of.items()} for name, of in runs.items()
    }
    (folder / f"{arguments.only or 'about'}.json").write_text(json.dumps(about, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    told(main)
