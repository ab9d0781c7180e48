"""A tiny probe set, tiny models and their hidden states in a folder, for tests of `inside`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

from isoscope.data import tokens
from isoscope.data.probe import ProbeSet, probe_set
from isoscope.geometry.moments import Floats
from isoscope.states import hidden_states as passes
from isoscope.states.trajectory import RANDOM, Snapshot, Trajectory, write_arrays, write_probe, write_snapshots

FIRST = ("the film", "a slow plot", "this very fine scene", "no dull story")
SECOND = ("was good", "was not good at all", "bored everybody", "moved me")


def sentences() -> pa.Table:
    """Thirty-two sentences of two classes."""
    rows = [
        (f"{one} {other}{end}", place % 2) for one in FIRST for place, other in enumerate(SECOND) for end in ("", " .")
    ]
    return pa.table({"sentence": [text for text, _ in rows], "label": [label for _, label in rows]})


def pieces(folder: Path) -> tokens.Tokenizer:
    return tokens.train_wordpiece(sentences()["sentence"].to_pylist(), folder, vocab_size=90, lowercase=True)


def chosen(tokenizer: tokens.Tokenizer, **changes: Any) -> ProbeSet:
    table = changes.pop("table", None) or sentences()
    options = {"max_length": 32, "words": 40, "block": 6, "attended": 5, "seed": 0} | changes
    return probe_set(tokenizer, table, np.arange(table.num_rows), **options)


def whole(backend: Tokenizer, texts: Sequence[str]) -> ProbeSet:
    """Return the probe set of all words of these sentences."""
    tokenizer = tokens.Tokenizer(backend, 0, backend.get_vocab_size())
    table = pa.table({"sentence": texts})
    return chosen(tokenizer, table=table, max_length=512, words=1000, block=1, attended=1)


def byte_level() -> Tokenizer:
    """A tokenizer like GPT-2's: a word begins with its space; letters and marks are words of their own."""
    names = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    return tokenizer


def bert(seed: int = 0, **changes: Any) -> BertModel:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(seed)
    return BertModel(BertConfig(vocab_size=200, max_position_embeddings=40, **sizes | changes)).eval()


def gpt2(seed: int = 0) -> GPT2Model:
    torch.manual_seed(seed)
    return GPT2Model(GPT2Config(vocab_size=200, n_positions=40, n_embd=16, n_layer=2, n_head=2)).eval()


def save(folder: Path, **models: Any) -> Path:
    """Write a checkpoint with a tokenizer into `folder` for each model, by name; return the folder."""
    for name, model in models.items():
        model.save_pretrained(folder / name)
        pieces(folder / name)
    return folder


def write_run(folder: Path, *, models: list[Any] | None = None) -> Trajectory:
    """A trajectory of as many models as snapshots, and a twin."""
    tokenizer = pieces(folder / "tokenizer")
    probe = chosen(tokenizer)
    models = models or [bert(seed) for seed in range(3)]
    snapshots = [Snapshot(f"step-{2**k}", 2**k, k, k == len(models) - 1, str(k)) for k in range(len(models))]
    for snapshot, model in zip(
        [*snapshots, Snapshot(RANDOM, None, None, False, "r")], [*models, bert(99)], strict=True
    ):
        arrays = passes.hidden_states(model, probe, pad_id=tokenizer.pad_id, batch_size=8)
        arrays |= passes.attention(model, probe, pad_id=tokenizer.pad_id, batch_size=8)
        write_arrays(folder / "states" / f"{snapshot.name}.safetensors", arrays, "key")
    write_probe(folder, probe)
    write_snapshots(folder, [*snapshots, Snapshot(RANDOM, None, None, False, "r")], {"sha256": probe.digest})
    return Trajectory(folder)


SNAPSHOTS = (
    Snapshot("step-0", 0, 0, False, "a"),
    Snapshot("step-5", 5, 1, True, "b"),
    Snapshot("step-9", 9, 2, False, "c"),
    Snapshot(RANDOM, None, None, False, "d"),
)


def planted(
    folder: Path, arrays: Mapping[str, Mapping[str, Any]], *, snapshots: Sequence[Snapshot] = SNAPSHOTS, **tables: Any
) -> Trajectory:
    """A run of made-up arrays, by the snapshot's name, and of made-up tables (`probe`, `words`, `tokens`)."""
    for snapshot in snapshots:
        single = {name: np.asarray(values, np.float32) for name, values in arrays[snapshot.name].items()}
        write_arrays(folder / "states" / f"{snapshot.name}.safetensors", single, "key")
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    write_snapshots(folder, list(snapshots), {})
    return Trajectory(folder)


def token_table(sentences: int, length: int, types: int) -> dict[str, Any]:
    """The tokens of sentences: words of so many types between [CLS] and [SEP]."""
    sentence, position = np.repeat(np.arange(sentences), length), np.tile(np.arange(length), sentences)
    end = np.isin(position, (0, length - 1))
    token = np.where(end, 99, np.random.default_rng(0).integers(0, types, sentence.size))
    return {"sentence": sentence, "position": position, "token": token, "end": end}


CLUSTERED = token_table(12, 8, 4)
CLUSTERED_D = 24


def by_word(seed: int = 0) -> Floats:
    """Vectors of the tokens `CLUSTERED`: a cluster for each word; [CLS] and [SEP] far away."""
    axes, noise = np.eye(CLUSTERED_D)[CLUSTERED["token"] % 20], np.random.default_rng(seed)
    found: Floats = 20.0 * axes + 500.0 * CLUSTERED["end"][:, None] + noise.standard_normal(axes.shape)
    return found


def by_position() -> Floats:
    """Vectors of the tokens `CLUSTERED`: a cluster for each position."""
    axes = np.eye(CLUSTERED_D)[CLUSTERED["position"]]
    return 20.0 * axes + np.random.default_rng(7).standard_normal(axes.shape)
