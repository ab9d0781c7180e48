"""What looking inside costs: extraction beside a plain padded loop, and each measure at a real study's size.

Extraction: one model (MiniLM where ISOSCOPE_HUB has it, else random weights of its size) over generated sentences; a
plain loop pads to 128 tokens and keeps [CLS] and the mean of every layer, as scripts do. Turn about, least of each.
Measures: cells of 872 random points of 768 dimensions, as a study of 13 layers x 10 snapshots has 130 of; the time of
one cell, and of all. Prints Markdown.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertModel

from isoscope.analysis import hidden_states as passes
from isoscope.analysis.cells import Cell
from isoscope.analysis.geometry import quick
from isoscope.analysis.measures import BUILT_IN
from isoscope.corpora import embedded, tokens
from isoscope.corpora.hub import resolve_checkpoint
from isoscope.corpora.probe import ProbeSet, probe_set
from isoscope.errors import InputError
from isoscope.geometry import probes
from isoscope.models.encoder import load_encoder

N, D, CELLS = 872, 768, 130
PADDED = 128


def least(work: Callable[[], Any], times: int) -> float:
    """Seconds of the fastest of so many calls."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def model_and_sentences() -> tuple[Any, ProbeSet, int]:
    corpus = embedded.generate("sentiment", size=4 * N, difficulty=0.5, seed=0)
    table = corpus.splits["train"].slice(0, N)
    try:
        folder = Path(resolve_checkpoint("sentence-transformers/all-MiniLM-L6-v2"))
        pieces, model = tokens.load(folder), load_encoder(folder)
    except (InputError, OSError):
        print("MiniLM is not below ISOSCOPE_HUB: random weights of its size.\n")
        with tempfile.TemporaryDirectory() as place:
            pieces = tokens.train_wordpiece(table["sentence"].to_pylist(), Path(place), vocab_size=2000, lowercase=True)
        sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
        model = BertModel(BertConfig(vocab_size=pieces.vocab_size, **sizes)).eval()
    probe = probe_set(pieces, table, np.arange(N), max_length=PADDED, words=500, block=40, attended=40, seed=0)
    return model, probe, pieces.pad_id


@torch.no_grad()
def plain(model: Any, probe: ProbeSet, pad_id: int, batch: int) -> None:
    """[CLS] and mean of every layer, as a script would take them: in order, padded to `PADDED`."""
    kept = []
    for start in range(0, N, batch):
        part = probe.encoded.ids[start : start + batch]
        ids = torch.full((len(part), PADDED), pad_id)
        mask = torch.zeros_like(ids)
        for row, one in enumerate(part):
            ids[row, : len(one)], mask[row, : len(one)] = torch.from_numpy(one.astype(np.int64)), 1
        layers = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        weight = (mask / mask.sum(1, keepdim=True))[..., None]
        kept.append([(layer[:, 0].numpy(), (layer * weight).sum(1).numpy()) for layer in layers])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, probe, pad_id = model_and_sentences()
    ours = least(lambda: passes.hidden_states(model, probe, pad_id=pad_id, batch_size=32), arguments.times)
    padded = least(lambda: plain(model, probe, pad_id, 32), max(1, arguments.times - 1))
    print(f"Extraction of {N} sentences, all that is kept: {ours:.1f} s;")
    print(f"the plain loop, padded to {PADDED}: {padded:.1f} s, {padded / ours:.1f} x.\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        passes.hidden_states(model, probe, pad_id=pad_id, batch_size=32)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"Peak memory: {before / 1e6:.2f} GB, after three more snapshots {after / 1e6:.2f} GB\n")
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, N)

    def cell() -> Cell:
        return Cell(
            draw.standard_normal((N, D)),
            labels=labels,
            groups=np.arange(N),
            names=None,
            attributes={"first_token": draw.integers(0, 50, N), "length": draw.integers(3, 40, N)},
            subsample=64,
            draws=20,
            confidence=0.95,
            seed=0,
        )

    print(f"| measure | one cell ({N} x {D}), ms | {CELLS} cells, s |\n|---|---:|---:|")
    rows: dict[str, Callable[[], Any]] = {name: partial(lambda one: one(cell()), one) for name, one in BUILT_IN.items()}
    rows["probe: label and control"] = lambda: probes.linear_probes(
        draw.standard_normal((N, D)), {"label": labels, "control": draw.permutation(labels)}, np.arange(N), seed=0
    )
    total = 0.0
    for name, work in rows.items():
        with quick():
            seconds = least(work, arguments.times)
        total += seconds
        print(f"| {name} | {1e3 * seconds:.0f} | {CELLS * seconds:.0f} |")
    print(f"| all | {1e3 * total:.0f} | {CELLS * total:.0f} |")


if __name__ == "__main__":
    main()
