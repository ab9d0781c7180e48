"""What each analysis costs: of one arm, 13 layers × 10 snapshots × 872 sentences, width 768, beside the random twin.

One pass of an untrained BERT-base with a Conv2D fusion over generated sentences; each further snapshot is that one and
a little more noise. Two threads of linear algebra. Prints Markdown.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits
from timing import table

from isoscope.analysis import hidden_states as passes
from isoscope.analysis.catalogue import ANALYSES, Asked, analysed
from isoscope.analysis.dynamics import feature_dynamics
from isoscope.analysis.geometry import Cells, places
from isoscope.analysis.measures import BUILT_IN
from isoscope.analysis.probing import baselines_table, probing_table
from isoscope.analysis.trajectory import (
    RANDOM,
    Snapshot,
    Trajectory,
    write_arrays,
    write_probe,
    write_snapshots,
    write_treebank,
)
from isoscope.corpora import embedded, tokens, treebank
from isoscope.corpora.probe import probe_set
from isoscope.models.build import from_scratch

N, SNAPSHOTS, LAYERS, WIDTH, WORDS = 872, 10, 12, 768, 1000
EVERY = 5
"""Snapshots whose probes are solved: so the profiles for real data have it."""
NOISE = 0.03  # sd of what a snapshot differs by from the one before it, of the standard deviation of its array


def make(folder: Path, *, n: int) -> Trajectory:
    """Hidden states of a run as `isoscope extract` writes them."""
    corpus = embedded.generate("sentiment", size=4 * n, difficulty=1, seed=0)
    sentences = corpus.splits["train"].slice(0, n)
    pieces = tokens.train_wordpiece(sentences["sentence"].to_pylist(), folder, vocab_size=2000, lowercase=True)
    chosen = probe_set(pieces, sentences, np.arange(n), max_length=64, words=WORDS, block=40, attended=40, seed=0)
    pq.write_table(corpus.trees, folder / "trees.parquet")
    bank = treebank.read(folder / "trees.parquet", pieces, sentences=100, max_length=64, seed=0)
    model = from_scratch(
        fusion={"kind": "conv2d"},
        vocab_size=pieces.vocab_size,
        hidden_size=WIDTH,
        layers=LAYERS,
        heads=12,
        intermediate_size=4 * WIDTH,
        max_positions=64,
        dropout=0.1,
        attention_dropout=0.1,
        init_std=0.02,
        initializer_range=0.02,
        labels=("no", "yes"),
        pad_id=pieces.pad_id,
        seed=0,
    )
    given = {"pad_id": pieces.pad_id, "batch_size": 32}
    arrays = passes.hidden_states(model.base_model, chosen, **given)
    arrays |= passes.word_states(model.base_model, bank, **given)
    arrays |= passes.attention(model.base_model, chosen, **given)
    arrays |= passes.kernel(model.state_dict()) | passes.head(model.state_dict())
    write_probe(folder, chosen)
    write_treebank(folder, bank)
    snapshots = [Snapshot(f"step-{step}", step, step, step == SNAPSHOTS - 1, "") for step in range(SNAPSHOTS)]
    snapshots.append(Snapshot(RANDOM, None, None, False, ""))
    random = np.random.default_rng(0)
    for snapshot in snapshots:
        write_arrays(folder / "states" / f"{snapshot.name}.safetensors", arrays, "")
        arrays = {name: values if "attention" in name else _moved(values, random) for name, values in arrays.items()}
    write_snapshots(folder, snapshots, {})
    return Trajectory(folder)


def _moved(values: Any, random: np.random.Generator) -> Any:
    return values + np.float32(NOISE * values.std()) * random.standard_normal(values.shape, np.float32)


def parts(run: Trajectory) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every analysis of a run as `isoscope measure` makes them."""
    cells = Cells(run, subsample=64, draws=20, confidence=0.95, seed=0)
    where = list(places(run, ("first", "words")))
    for name in BUILT_IN:
        yield (
            f"measure {name}, {len(where)} clouds",
            lambda name=name: [cells.measured(*place, [name]) for place in where],
        )
    yield "planes", lambda: feature_dynamics(run, "joint")
    probed = {*(one.name for one in run.trained[::EVERY]), run.best.name, RANDOM}
    yield (
        f"probes of {len(probed)} snapshots",
        lambda: probing_table(run, vectors=("first",), everywhere=("label",), snapshots=probed, seed=0),
    )
    yield "probes without an encoder", lambda: baselines_table(run, seed=0)
    asked = Asked(vectors=("first",), seed=0, folds=5, confidence=0.95, neighbours=5, diagram=120)
    for name in ANALYSES:
        if name != "probing":
            yield name, lambda name=name: analysed(name, run, asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=N)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    rows, whole = [], [0.0, 0.0]
    with tempfile.TemporaryDirectory() as place, threadpool_limits(arguments.threads):
        run = make(Path(place), n=arguments.sentences)
        for name, work in parts(run):
            began, spent = time.perf_counter(), time.process_time()
            work()
            took = time.perf_counter() - began, time.process_time() - spent
            whole = [sum(pair) for pair in zip(whole, took, strict=True)]
            rows.append((name, *(f"{seconds:.1f}" for seconds in took)))
            print(*rows[-1], flush=True)
    rows.append(("all", *(f"{seconds:.0f}" for seconds in whole)))
    print(table("Analyses of one arm", ("analysis", "seconds", "of CPU"), rows))


if __name__ == "__main__":
    main()
