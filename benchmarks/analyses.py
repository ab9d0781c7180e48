"""Measure the time of each analysis: one arm, 13 layers × 10 snapshots × 872 sentences, width 768, with the control.

The first snapshot is a pass of an untrained BERT-base with a Conv2D fusion over generated sentences. Each further
snapshot adds a little noise. Settings of params.yaml, two processes of one thread. Prints Markdown.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits
from timing import bound, conclude, table

from isoscope.base.built_in import MEASURES
from isoscope.base.workers import workers
from isoscope.data import embedded, tokens, treebank
from isoscope.data.probe import probe_set
from isoscope.models.build import from_scratch
from isoscope.platform.config.project import Measures
from isoscope.platform.config.tree import read_yaml
from isoscope.states import hidden_states as passes
from isoscope.states.measure import MeasureInputs, cell, part, parts_of
from isoscope.states.trajectory import (
    RANDOM,
    Snapshot,
    Trajectory,
    write_arrays,
    write_probe,
    write_snapshots,
    write_treebank,
)
from isoscope.states.word_space import word_states

WORDS = 1000
ROOT = Path(__file__).parents[1]
LONGEST = 18
"""Bound, in SVDs of all clouds in one process: 15 are scaled from the CPU time of parts, and a fifth is for noise."""
NOISE = 0.03  # sd of the noise added to each next snapshot, over the sd of its array


class Size(NamedTuple):
    """The size of the analysed run."""

    sentences: int = 872
    snapshots: int = 10
    layers: int = 12
    width: int = 768


SMOKE = Size(sentences=40, snapshots=1, layers=1, width=12)


def make(folder: Path, size: Size) -> Trajectory:
    """Write hidden states of a run as `isoscope states` does."""
    n = size.sentences
    corpus = embedded.generate("sentiment", size=4 * n, difficulty=1, seed=0)
    sentences = corpus.splits["train"].slice(0, n)
    pieces = tokens.train_wordpiece(sentences["sentence"].to_pylist(), folder, vocab_size=2000, lowercase=True)
    chosen = probe_set(pieces, sentences, np.arange(n), max_length=64, words=WORDS, block=40, attended=40, seed=0)
    pq.write_table(corpus.trees, folder / "trees.parquet")
    pq.write_table(corpus.splits["train"], folder / "train.parquet")
    bank = treebank.read(folder / "trees.parquet", pieces, sentences=100, max_length=64, seed=0)
    model = from_scratch(
        family="bert",
        fusion=read_yaml(ROOT, Path("variants/fusion/conv2d.yaml"))["model"]["fusion"],
        vocab_size=pieces.vocab_size,
        hidden_size=size.width,
        layers=size.layers,
        heads=12,
        intermediate_size=4 * size.width,
        activation="gelu",
        norm="post",
        positions="learned",
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
    arrays["treebank"] = word_states(model.base_model, bank, **given).values
    arrays |= passes.attention(model.base_model, chosen, **given)
    arrays |= passes.kernel(model.state_dict()) | passes.head(model)
    write_probe(folder, chosen)
    write_treebank(folder, bank)
    snapshots = [Snapshot(f"step-{step}", step, step, step == size.snapshots - 1, "") for step in range(size.snapshots)]
    snapshots.append(Snapshot(RANDOM, None, None, False, ""))
    random = np.random.default_rng(0)
    for snapshot in snapshots:
        write_arrays(folder / "states" / f"{snapshot.name}.safetensors", arrays, "")
        arrays = {name: values if "attention" in name else _moved(values, random) for name, values in arrays.items()}
    write_snapshots(folder, snapshots, {})
    return Trajectory(folder)


def _moved(values: Any, random: np.random.Generator) -> Any:
    return values + np.float32(NOISE * values.std()) * random.standard_normal(values.shape, np.float32)


def analyses(run: Trajectory, given: MeasureInputs) -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Yield name, function and its inputs for each part of its measurement, with every measure separately."""
    where = list(run.places(given.measures.vectors))
    for name in MEASURES:
        one = given._replace(measures=given.measures.model_copy(update={"names": (name,)}))
        yield f"measure {name} of {len(where)} clouds", partial(cell, one), where
    named: dict[str, list[tuple[str, str | None, str | None]]] = {}
    for one_part in parts_of(run, given.measures):
        named.setdefault(one_part[0], []).append(one_part)
    for name, several in named.items():
        title = f"probes of {len({snapshot for _, snapshot, _ in several})} snapshots" if name == "probing" else name
        yield title, partial(part, given), several


def decompositions(run: Trajectory, given: MeasureInputs) -> float:
    """Return the seconds of NumPy's SVD of every measured cloud, from one: the unit of the bound."""
    where = list(run.places(given.measures.vectors))
    points = run.arrays(run.best).layer("words", 0)
    began = time.perf_counter()
    np.linalg.svd(points, compute_uv=False)
    return len(where) * (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=Size().sentences)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="test the script: a tiny run, one process")
    arguments = parser.parse_args()
    size = Size(sentences=arguments.sentences)
    if arguments.smoke:
        size, arguments.processes = SMOKE, 1
    measures = Measures.model_validate(read_yaml(ROOT, Path("params.yaml"))["measures"])
    with (
        tempfile.TemporaryDirectory() as place,
        threadpool_limits(1),
        workers(arguments.processes, key="--processes") as spread,
    ):
        run, given = make(Path(place), size), MeasureInputs(Path(place), "", Path(place), measures)
        rows, whole = [], 0.0
        for name, work, over in analyses(run, given):
            began = time.perf_counter()
            found = list(spread(work, over, lambda: None))
            took = time.perf_counter() - began
            whole += took
            rows.append((name, f"{took:.1f}", "" if any(found) else "has nothing to show"))
            print(*rows[-1], flush=True)
        bound("all, to an SVD of every cloud in one process", whole / decompositions(run, given), LONGEST)
    rows.append(("all", f"{whole:.0f}", ""))
    print(table(f"Analyses of one arm on {arguments.processes} cores", ("analysis", "seconds", ""), rows))
    conclude(smoke=arguments.smoke)


if __name__ == "__main__":
    main()
