"""Measure what a comparison of spaces costs: time by layer and by cell, and memory.

python benchmarks/spaces.py [--full] [--smoke]   prints Markdown.

Contextuality (AvgSim, SelfSim, IntraSim, MEV, their intervals, histograms of 100,000 pairs) of a layer of 50,000 words
of width 768, against a loop over the same number of pairs in NumPy: what public code does. Every measure of similarity
of a pair of layers, with null and interval, of width 256 and 20,000 words; `--full` also of width 768. One process, one
thread; the pairs of a comparison run on all cores.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits
from timing import bound, conclude, table

from isoscope.data.word_table import KEY, WordTable, word_table
from isoscope.geometry.moments import Floats
from isoscope.states.choices import SPACES
from isoscope.states.compared_items import compared_items
from isoscope.states.contextuality_tables import Words, contextuality
from isoscope.states.similarity_tables import PreparedLayer, layer_similarities
from isoscope.states.word_space import Space, store

LAYERS = 13


class Size(NamedTuple):
    """Words, width of a layer, items of RSA, and pairs of the histograms."""

    words: int
    width: int
    items: int = 1000
    pairs: int = 100_000


def sentences(words: int) -> WordTable:
    """Return a word table of sentences of 5 to 20 words, of 2,000 forms whose frequencies fall as 1/rank."""
    random = np.random.default_rng(0)
    chance = 1 / np.arange(1, 2001)
    chance /= chance.sum()
    texts = [
        " ".join(f"w{one}" for one in random.choice(2000, random.integers(5, 21), p=chance)) for _ in range(words // 8)
    ]
    return word_table(texts, occurrences=words, per_sentence=25, seed=0)


def points(size: Size, known: WordTable, seed: int) -> Floats:
    """Return states in which a form and a sentence have a part each."""
    random = np.random.default_rng(seed)
    form = np.unique(known.rows["form"].to_numpy(), return_inverse=True)[1]
    parts = (random.standard_normal((count.max() + 1, size.width))[count] for count in (form, known.sentences))
    return sum(parts) + random.standard_normal((len(form), size.width))


def space(folder: Path, states: Floats, known: WordTable) -> Space:
    """Write a space of one layer."""
    return store(folder, known.rows[KEY].assign(found=True), states.astype(np.float32)[None])


def peak() -> float:
    """Return the most memory that the process has used, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def of_one_layer(size: Size) -> tuple[str, ...]:
    """Return a row: contextuality of a layer, against a loop over as many pairs as it has."""
    known = sentences(size.words)
    states = points(size, known, 1)
    form = np.unique(known.rows["form"].to_numpy(), return_inverse=True)[1]
    before, began = peak(), time.perf_counter()
    options: dict[str, Any] = {"draws": 200, "pairs": size.pairs, "confidence": 0.95, "seed": 0}
    contextuality(states, Words(known.sentences, form, np.zeros_like(form)), **options)
    seconds, memory = time.perf_counter() - began, peak() - before
    looped = 2000
    one, other = np.random.default_rng(0).integers(len(states), size=(2, looped))
    began = time.perf_counter()
    for first, second in zip(states[one], states[other], strict=True):
        first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
    loop = (time.perf_counter() - began) / looped * len(states) * (len(states) - 1) / 2
    what = f"contextuality, {len(states):,} words × {size.width}"
    bound(f"{what}: a loop over all pairs, to ours", loop / seconds, 690, least=True)
    bound(f"{what}: memory", memory, 2, "GB")
    return (
        what,
        f"{seconds:.1f} s",
        f"{LAYERS} layers: {LAYERS * seconds / 60:.1f} min",
        f"{memory:.1f} GB; loop over all pairs: {loop / seconds:,.0f} ×",
    )


def of_a_cell(size: Size, layers: int) -> tuple[str, ...]:
    """Return a row: all similarities of a pair of layers, of words and of words without their form's mean.

    A layer is prepared once for the cells of its row or column, so what a pair costs only the first time is counted
    once per layer. CPU time of one thread: other programs on the machine do not count.
    """
    known = sentences(size.words)
    settings = SPACES._replace(items=size.items)
    kinds = compared_items(known, np.ones(len(known.rows), bool), probe="words", seed=0)
    times = []
    with tempfile.TemporaryDirectory() as place:
        spaces = [space(Path(place) / str(seed), points(size, known, seed), known) for seed in (1, 2)]
        for on in kinds:
            times.append(time.process_time())
            items = on.sample_for_pairs(settings.items, *spaces, seed=settings.seed)
            pair = [PreparedLayer(one, on, items, settings, 0, seed) for seed, one in enumerate(spaces)]
            for _ in range(2):
                [*layer_similarities(*pair, on, settings)]
                times.append(time.process_time())
    first, cell = (sum(np.diff(times)[at::3]) / len(kinds) for at in (0, 1))
    layer = (first - cell) / 2
    what, minutes = (
        f"similarity, {len(known.rows):,} words × {size.width}",
        layers * (layers * cell + 2 * layer) / 2 / 60,
    )
    bound(f"{what}: {layers} × {layers} layers on two cores", minutes, 3 if layers < 13 else 20, "min")
    return (
        what,
        f"{cell:.1f} s a cell, {layer:.1f} s a layer",
        f"{layers} × {layers} cells on two cores: {minutes:.1f} min",
        "",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="also cells of width 768: minutes each")
    parser.add_argument("--smoke", action="store_true", help="small sizes; only shows that the script works")
    arguments = parser.parse_args()
    few = Size(1500, 8, items=50, pairs=1000)
    with threadpool_limits(1):
        rows = [of_one_layer(few if arguments.smoke else Size(50_000, 768))]
        rows.append(of_a_cell(few if arguments.smoke else Size(20_000, 256), 7))
        if arguments.full:
            rows.append(of_a_cell(few if arguments.smoke else Size(20_000, 768), 13))
    print(table("Spaces", ("measured", "time", "extrapolated", "memory, peer"), rows))
    conclude(smoke=arguments.smoke)


if __name__ == "__main__":
    main()
