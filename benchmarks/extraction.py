"""Compare the time of extraction with a plain padded loop.

One model (MiniLM if ISOSCOPE_HUB has it, else random weights of its size) over 872 generated sentences. The plain loop
pads to 128 tokens and keeps [CLS] and the mean of every layer, as scripts do. Interleaved; minimum of each.
Prints Markdown.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timing import bound, conclude
from transformers import BertConfig, BertModel

from isoscope.base.errors import InputError
from isoscope.data import embedded, tokens
from isoscope.data.hub import resolve_checkpoint
from isoscope.data.probe import ProbeSet, probe_set
from isoscope.models.encoder import load_encoder
from isoscope.states import hidden_states as passes

PADDED = 128
SIZES = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
TINY = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}


def least(work: Callable[[], Any], times: int) -> float:
    """Return the seconds of the fastest of `times` calls."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def model_and_sentences(n: int, *, smoke: bool) -> tuple[Any, ProbeSet, int]:
    corpus = embedded.generate("sentiment", size=4 * n, difficulty=1, seed=0)
    table = corpus.splits["train"].slice(0, n)
    folder = None if smoke else minilm()
    if folder is not None:
        pieces, model = tokens.load(folder), load_encoder(folder)
    else:
        sizes = TINY if smoke else SIZES
        print(f"Random weights, {sizes['num_hidden_layers']} layers of {sizes['hidden_size']}.\n")
        with tempfile.TemporaryDirectory() as place:
            pieces = tokens.train_wordpiece(table["sentence"].to_pylist(), Path(place), vocab_size=2000, lowercase=True)
        model = BertModel(BertConfig(vocab_size=pieces.vocab_size, **sizes)).eval()
    probe = probe_set(
        pieces, table, np.arange(n), max_length=PADDED, words=min(500, n), block=min(40, n), attended=min(40, n), seed=0
    )
    return model, probe, pieces.pad_id


def minilm() -> Path | None:
    """Return the folder of MiniLM in ISOSCOPE_HUB; None if it is missing."""
    try:
        return resolve_checkpoint("sentence-transformers/all-MiniLM-L6-v2")
    except (InputError, OSError):
        return None


@torch.no_grad()
def plain(model: Any, probe: ProbeSet, pad_id: int, batch: int) -> None:
    """Compute [CLS] and mean of every layer as a plain script does: in order, padded to `PADDED`."""
    kept = []
    for start in range(0, len(probe.encoded.ids), batch):
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
    parser.add_argument("--smoke", action="store_true", help="test the script: few sentences, a tiny model")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.times = 1
    torch.set_num_threads(1)
    model, probe, pad_id = model_and_sentences(48 if arguments.smoke else 872, smoke=arguments.smoke)
    ours = least(lambda: passes.hidden_states(model, probe, pad_id=pad_id, batch_size=32), arguments.times)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        passes.hidden_states(model, probe, pad_id=pad_id, batch_size=32)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"Peak memory: {before / 1e6:.2f} GB, after three more snapshots {after / 1e6:.2f} GB\n")
    padded = least(lambda: plain(model, probe, pad_id, 32), max(1, arguments.times - 1))
    print(f"Extraction of {len(probe.encoded.ids)} sentences, all that is kept: {ours:.1f} s;")
    print(f"the plain loop, padded to {PADDED}: {padded:.1f} s.\n")
    bound("the plain loop, to extraction", padded / ours, 2, least=True)
    bound("peak memory", after / 1e6, 2, "GB")
    conclude(smoke=arguments.smoke)


if __name__ == "__main__":
    main()
