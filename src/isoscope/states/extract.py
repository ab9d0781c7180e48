"""Extract the hidden states of every snapshot of a trained classifier over a probe set."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import nn
from torch.nn import functional as F

from isoscope.base.atomic_files import sha256
from isoscope.base.errors import InputError
from isoscope.data import probe, tokens, treebank
from isoscope.data.arrays import Indices, Vectors
from isoscope.data.checkpoints import TOKENIZER_CONFIG, checkpoint_digest, first_kept
from isoscope.data.corpus import SPLITS, TREEBANK, texts
from isoscope.data.hub import find_file
from isoscope.data.probe import ProbeSet
from isoscope.models.build import check_device, warn_of_emulation
from isoscope.models.encoder import TWIN_SEED, bare, causal, load_classifier, random_encoder
from isoscope.states import hidden_states as passes
from isoscope.states.model_facts import model_facts
from isoscope.states.pairs import EncodedPairs
from isoscope.states.trajectory import GRADIENTS, RANDOM, Snapshot, extract_snapshots, write_treebank
from isoscope.states.word_space import word_states

OWN_TREEBANK = "task"
"""As the name of a treebank: the task's own treebank."""


def environment(asked: Any, option: str = "extraction.{}", **cure: str) -> dict[str, Any]:
    """Set the threads, and return device, threads and precision of an extraction.

    `option`: what a setting is called in errors; `cure` of a device that this machine lacks.
    """
    device = check_device(asked.device, key=option.format("device"), **cure)
    if asked.threads is not None:
        torch.set_num_threads(asked.threads)
    warn_of_emulation(asked.precision, device=device, key=option.format("precision"))
    return {"device": device, "threads": torch.get_num_threads(), "precision": asked.precision}


def extract(
    folder: Path,
    asked: Any,
    snapshots: Mapping[Snapshot, Path],
    *,
    trained: Path,
    data: Path,
    files: Mapping[str, Path],
    seed: int,
    key: str,
    title: str,
    watch: Callable[[], None],
) -> probe.ProbeSet:
    """Write the hidden states of `snapshots` with their folders of weights, and return the probe set.

    - `asked`: the section `extraction`; `trained`: a run's output, whose tokenizer is used; `data`: its prepared task.
    - `files`: see `files_of`. `seed`: of the run; the twin's weights depend on it.
    - `key`: identifies code and settings; files made from another key are made again. `watch`: see `extract_snapshots`.
    """
    tokenizer, max_length = _tokenizer(trained)
    device = check_device(asked.device, key="extraction.device")
    tables = {split: pq.read_table(data / f"{split}.parquet") for split in SPLITS}
    table = tables.pop(asked.split)
    rows = probe.draw_rows(table, [*tables.values()], share=asked.share, most=asked.sentences, seed=asked.seed)
    chosen = probe_set(asked, tokenizer, table, rows, max_length=max_length)
    bank = None
    if "treebank" in files:
        sentences = asked.treebank.sentences
        bank = treebank.read(files["treebank"], tokenizer, sentences=sentences, max_length=max_length, seed=asked.seed)
        write_treebank(folder, bank)
    elif asked.treebank is not None:
        print("the task has no treebank: part of speech and tree depth are not probed", file=sys.stderr)
    pairs = None
    if "pairs" in files:
        most = asked.pairs.pairs
        others = texts(table.take(rows))
        pairs = EncodedPairs(files["pairs"], tokenizer, others, most=most, max_length=max_length, seed=asked.seed)
        pairs.write(folder)

    def arrays(snapshot: Snapshot) -> passes.Arrays:
        if snapshot.name == RANDOM:
            model = random_encoder(snapshots[snapshot], seed=TWIN_SEED + seed, as_stored=True).to(device)
            return snapshot_arrays(model, chosen, bank, pairs, asked, pad_id=tokenizer.pad_id)
        classifier = load_classifier(snapshots[snapshot]).to(device)
        reads = bare(classifier.base_model)
        if snapshot == next(iter(snapshots)):
            about = {"pad_id": tokenizer.pad_id, "bf16": asked.precision == "bf16", "name": title}
            model_facts(reads, chosen.encoded, **about)
        found = snapshot_arrays(reads, chosen, bank, pairs, asked, pad_id=tokenizer.pad_id)
        gradients = block_gradients(
            classifier,
            chosen,
            pad_id=tokenizer.pad_id,
            batch_size=asked.gradient_batch,
            batches=asked.gradients,
            seed=asked.seed,
        )
        return found | passes.head(classifier) | {"block_gradient": gradients}

    extract_snapshots(
        folder,
        chosen,
        [*snapshots],
        arrays,
        key=f"{key} {chosen.digest}",
        facts={"split": asked.split},
        title=title,
        watch=watch,
    )
    return chosen


def snapshot_arrays(
    model: Any,
    chosen: probe.ProbeSet,
    bank: treebank.Treebank | None,
    pairs: EncodedPairs | None,
    asked: Any,
    *,
    pad_id: int,
) -> passes.Arrays:
    """Return all arrays kept of a model: representations, embedding parts, attention, and the fusion's kernel."""
    options: Any = {"pad_id": pad_id, "batch_size": asked.batch_size, "bf16": asked.precision == "bf16"}
    found = passes.hidden_states(model, chosen, **options)
    if bank is not None:
        found["treebank"] = word_states(model, bank, **options).values
    if pairs is not None:
        found |= pairs.arrays(model, causal=causal(model, max(chosen.encoded.ids, key=len)), **options)
    try:
        attention = passes.attention(model, chosen, pad_id=pad_id, batch_size=asked.batch_size)
    except InputError as error:  # a model without attention maps has the other arrays
        print(f"warning: {error}", file=sys.stderr)
        attention = {}
    return found | attention | passes.kernel(model.state_dict())


def snapshots_of(
    weights: Mapping[int, Path], epochs: Mapping[int, int], best: int | None, *, every: int
) -> dict[Snapshot, Path]:
    """Return every n-th of a run's kept weights (update → folder), by step, as snapshots with these folders.

    `epochs`: update → epoch; `best`: the chosen epoch. The chosen and the last snapshot are always included. The twin
    with random weights comes last.
    """
    chosen = [step for step, epoch in epochs.items() if epoch == best]
    taken = {*[*weights][::every], max(weights), *chosen}
    found = {
        Snapshot(
            f"step-{step}",
            step,
            epochs.get(step),
            step in chosen,
            sha256(folder / "model.safetensors"),
        ): folder
        for step, folder in weights.items()
        if step in taken
    }
    first = next(iter(found.values()))
    return found | {Snapshot(RANDOM, None, None, False, checkpoint_digest(first)): first}


def files_of(asked: Any, data: Path, project: Path) -> dict[str, Path]:
    """Return the files that `asked` names beside a prepared task in `data`: `treebank`, `pairs`; those there are."""
    found = {}
    if asked.treebank is not None and asked.treebank.file != OWN_TREEBANK:
        found["treebank"] = find_file(asked.treebank.file, project, key="extraction.treebank")
    elif asked.treebank is not None and (data / TREEBANK).is_file():
        found["treebank"] = data / TREEBANK
    if asked.pairs is not None:
        found["pairs"] = find_file(asked.pairs.file, project, key="extraction.pairs", split=asked.pairs.split)
    return found


def probe_set(asked: Any, tokenizer: tokens.Tokenizer, table: Any, rows: Indices, *, max_length: int) -> probe.ProbeSet:
    """Return the probe set of the sentences `rows` of a table, with words and subsets as `asked`."""
    sizes = {name: getattr(asked, name) for name in ("words", "block", "attended", "seed")}
    return probe.probe_set(tokenizer, table, rows, max_length=max_length, **sizes)


def _tokenizer(trained: Path) -> tuple[tokens.Tokenizer, int]:
    if (folder := first_kept(trained)) is None:
        raise InputError(f"{trained}: has no checkpoint with a tokenizer; train this run again")
    settings = json.loads((folder / TOKENIZER_CONFIG).read_text("utf-8"))
    return tokens.load(folder), int(settings["model_max_length"])


_CALLED = {
    "word_embeddings": "word",
    "position_embeddings": "position",
    "token_type_embeddings": "token_type",
    "LayerNorm": "norm",
    "norm": "norm",
    "fusion": "fusion",
    "wpe": "position",
    "embed_positions": "position",
}


def block_gradients(
    model: nn.Module, probe: ProbeSet, *, pad_id: int, batch_size: int, batches: int, seed: int
) -> Vectors:
    """Return squared gradient norm, trace of its covariance over batches, and number of batches, by part `[5, 3]`.

    NaN for a missing part, and without classes. Uses at most `batches` of `batch_size` sentences of the probe set,
    drawn by `seed` without replacement, without dropout, with cross-entropy of the classifier `model` (logits
    `[B, C]`). The trace is the unbiased variance over batches, summed over parameters. The squared norm is that of the
    mean gradient minus trace / batches, which corrects for noise: it is unbiased, and may be below 0 if the gradient is
    noise only. Leaves the model's gradients empty.
    """
    noise, own = np.full((len(GRADIENTS), 3), np.nan, np.float32), list[tuple[str, nn.Parameter]]()
    table = model.get_input_embeddings().weight  # type: ignore[operator]  # transformers' own
    for name, parameter in model.named_parameters():
        _, block, *rest = [*name.split("."), ""]
        part = "word" if parameter is table else _CALLED.get(rest[0] if block == "embeddings" else block)
        own += [(part, parameter)] if part else []
    parts, wanted = [part for part, _ in own], [parameter for _, parameter in own]
    order = np.random.default_rng(seed).permutation(len(probe.encoded.ids))
    classes = (probe.encoded.labels != tokens.NO_CLASS).all()
    count = min(batches, len(order) // batch_size) if classes else 0
    total = [torch.zeros_like(one) for one in wanted]
    squares = torch.zeros(len(wanted), dtype=torch.float64, device=table.device)
    model.eval()
    for rows in order[: count * batch_size].reshape(count, batch_size):
        logits = model(**passes.inputs_of(model, probe.encoded, rows, pad_id)).logits
        labels = passes.sent(probe.encoded.labels[rows], logits.device)
        drawn = torch.autograd.grad(F.cross_entropy(logits, labels), wanted, materialize_grads=True)
        for one, gradient in zip(total, drawn, strict=True):
            one += gradient
        squares += torch.stack([gradient.double().square().sum() for gradient in drawn])
    for row, name in enumerate(GRADIENTS):
        numbers = [number for number, part in enumerate(parts) if part == name]
        if numbers and count > 1:
            mean = sum(float((total[number] / count).double().square().sum()) for number in numbers)
            spread = max((sum(float(squares[number]) for number in numbers) - count * mean) / (count - 1), 0.0)
            noise[row] = mean - spread / count, spread, count
    return noise
