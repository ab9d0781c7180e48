"""Compare the encoders of the page on dynamics: `python docs/results/spaces_runs.py TEXT FOLDER`.

FOLDER: .isoscope/runs of the project that trained the runs of docs/results/dynamics (own.csv, depth.csv); they are
found by digest. TEXT: sentences (txt, csv, tsv, jsonl or parquet). Models: masked and causal models of half the depth,
and the encoders of translation models, all of two layers. Writes docs/results/spaces/<name>/ (`--name`), or into
another folder (`--to`): contextuality.parquet, by_frequency.parquet, pairs.parquet, similarity.parquet, counts.parquet,
over_training.parquet (alone with `--only over_training`) and about.json.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from collect import told
from threadpoolctl import threadpool_limits

from isoscope.data.parquet import write_parquet
from isoscope.data.plain import read_texts
from isoscope.data.word_table import WordTable, word_table
from isoscope.errors import InputError
from isoscope.inside.similarity_tables import Sampling
from isoscope.studies.spaces import by_frequency
from isoscope.studies.spaces.of_studies import of_runs
from isoscope.studies.spaces.states_over_training import over_training
from isoscope.workers import Over, with_bar, workers

HERE = Path(__file__).parent
MODELS = {
    "MLM": ("depth", "masked-additive"),
    "CLM": ("depth", "causal-additive"),
    "MT": ("own", "translation-additive"),
}
"""Model → file of docs/results/dynamics with its runs, and their arm."""
SEEDS = (0, 1, 2)
SAMPLE: dict[str, Any] = {"occurrences": 50_000, "per_sentence": 25, "seed": 0}
OPTIONS: dict[str, Any] = {
    "probe": "words",
    "pooling": "mean",
    "permutations": 20,
    "items": 1000,
    "neighbours": 10,
    "components": None,
    "draws": 200,
    "histogram": 100_000,
    "over_training": 1,
    "seed": 0,
    "confidence": 0.95,
    "power": 0.8,
    "margin": 0.01,
}


def checkpoints(store: Path) -> dict[str, dict[int, Path]]:
    """Return the chosen checkpoint of each model's seeds."""
    found: dict[str, dict[int, Path]] = {}
    for model, (part, arm) in MODELS.items():
        table = pd.read_csv(HERE / "dynamics" / f"{part}.csv", dtype={"digest": str})
        digests = table[table["arm"] == arm].groupby("seed")["digest"].first()
        for seed in SEEDS:
            runs = [*store.glob(f"{digests[seed]}*/output/checkpoints/*")]
            if len(runs) != 1:
                raise InputError(f"{store}: no finished run {digests[seed]} ({model}, seed {seed})")
            found.setdefault(model, {})[seed] = runs[0]
    return found


def kept(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return what the page is made of: no words of a text, and values without each group for layers of equal number."""
    similarity = tables["similarity"]
    judged = (similarity["layer"] == similarity["other_layer"]) & ~similarity["twin"]
    return {
        "contextuality": tables["contextuality"],
        "by_frequency": by_frequency.VIEWS[0].table(tables)[0],
        "pairs": tables["pairs"],
        "similarity": similarity.assign(without=similarity["without"].where(judged, None)),
        "counts": tables["counts"],
        "over_training": tables["over_training"].drop(columns="without"),
    }


def alone(runs: Mapping[str, Mapping[int, Path]], table: WordTable, over: Over) -> pd.DataFrame:
    """Return the table `over_training`, without the others."""
    sampling = Sampling(*(OPTIONS[name] for name in Sampling._fields))
    given = {name: OPTIONS[name] for name in ("probe", "pooling")}
    return over_training(runs, table, every=OPTIONS["over_training"], sampling=sampling, over=over, **given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="sentences")
    parser.add_argument("store", type=Path, help="folder of runs by digest")
    parser.add_argument("--column", help="column of the text")
    parser.add_argument("--counted", type=Path, help="training sentences, for the frequencies of forms")
    parser.add_argument("--name", required=True, help="name of the text")
    parser.add_argument("--only", choices=["over_training"], help="make this table alone")
    parser.add_argument("--to", type=Path, default=HERE / "spaces", help="folder to write to")
    arguments = parser.parse_args()
    texts = read_texts(arguments.text, column=arguments.column, labels=None)
    counted = arguments.counted and read_texts(arguments.counted, column=arguments.column, labels=None)
    table = word_table(
        texts.table["sentence"].to_pylist(),
        counted=counted and counted.table["sentence"].to_pylist(),
        **SAMPLE,
    )
    with threadpool_limits(1), workers(None, key="cores") as spread:
        over = with_bar(spread, lambda: None, arguments.name)
        runs = checkpoints(arguments.store)
        if arguments.only:
            tables = {arguments.only: alone(runs, table, over).drop(columns="without")}
        else:
            tables = kept(of_runs(runs, table, over=over, **OPTIONS))
    folder = arguments.to / arguments.name
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        write_parquet(rows, folder / f"{name}.parquet")
    about = {"text": texts.digest, "sample": SAMPLE, "options": OPTIONS, "sentences": len(table.texts)}
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    told(main)
