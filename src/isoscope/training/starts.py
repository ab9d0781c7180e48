"""The model that training starts from: another run's model, or a hybrid of two runs' models."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from isoscope.base.atomic_files import fault, write_whole
from isoscope.base.errors import InputError
from isoscope.base.registry import STARTS
from isoscope.data import tokens
from isoscope.data.batches import draw_fraction, drawn_rows, evaluation_batches
from isoscope.data.corpus import PAIR
from isoscope.data.tokens import Encoded
from isoscope.geometry.linear_maps import LinearMap, best_ridge, identity, procrustes, rotation
from isoscope.geometry.moments import Floats
from isoscope.models import language_models
from isoscope.models.encoder import TWIN_SEED, load_encoder, positions, random_encoder
from isoscope.models.hybrid import TARGET, hybrid, shorten
from isoscope.models.loading import quiet
from isoscope.objectives.language import padded
from isoscope.training.given import Job
from isoscope.training.ranks import Ranks

BATCH = 64


@STARTS.register("run")
@STARTS.register("hybrid")
def starting_point(job: Job, chosen: Mapping[str, Path], folder: Path, ranks: Ranks) -> Path:
    """Return the checkpoint that training starts from: the `chosen` one, or a hybrid of two.

    A hybrid is written to `folder`, by the first process.
    """
    if "model" in chosen:
        return chosen["model"]
    if ranks.main and not (folder.is_dir() and fault(folder) is None):
        write_whole(folder, lambda fresh: join(job, chosen["encoder"], chosen["decoder"], fresh), "checkpoint")
    ranks.from_main(0)
    return folder


def join(job: Job, encoder: Path, decoder: Path, folder: Path) -> None:
    """Write the hybrid of a job to an empty folder, and below it the translation model whose decoder it has.

    A map is fitted on states of all tokens of sentences of the train split. Raises `InputError` if the tokenizers
    differ.
    """
    settings = job.parts.model.encoder
    vocabularies = [tokens.load(one).backend.get_vocab() for one in (encoder, decoder, job.tokenizer)]
    if vocabularies[0] != vocabularies[1]:
        raise InputError("model.encoder: encoder and decoder have different tokenizers; both must read one text")
    reads = load_encoder(encoder)
    if settings.encoder.weights == "random":
        reads = random_encoder(encoder, seed=job.seed + TWIN_SEED)
    if settings.layer is not None:
        shorten(reads, settings.layer)
    writes = language_models.from_run("translation", decoder).eval()
    most, asked = min(map(positions, (reads, writes.encoder, writes.decoder))), job.parts.model.max_length
    if most < asked:
        raise InputError(f"model.max_length: {asked}, but the models to start from take {most} tokens")
    joined = hybrid(reads, writes, *fitted(job, settings.map, reads, writes))
    tokens.copy(job.tokenizer, folder, max_length=job.parts.model.max_length)
    with quiet():
        joined.save_pretrained(folder)
        writes.save_pretrained(folder / TARGET)


def fitted(job: Job, settings: Any, reads: Any, writes: Any) -> LinearMap:
    """Return the map of a section `model.encoder.map`, from the states of `reads` to those of `writes`' encoder."""
    width, other = reads.config.hidden_size, writes.config.encoder.hidden_size
    match settings.kind:
        case "identity":
            return identity(width)
        case "rotation":
            return rotation(width, degrees=settings.degrees, seed=job.seed)
        case "random":
            drawn = np.random.default_rng(job.seed).standard_normal((width, other))
            return LinearMap(reads.config.initializer_range * drawn, np.zeros(other))
    table = pq.read_table(job.data / "train.parquet")
    encoded = tokens.encode_column(tokens.load(job.tokenizer), table, PAIR[0], max_length=job.parts.model.max_length)
    used = draw_fraction(encoded.labels, job.parts.training.fraction, seed=job.seed)
    rows = used[drawn_rows(len(used), settings.sentences, job.seed)]
    if settings.kind == "procrustes":
        return procrustes(*(last_states(one, encoded, rows) for one in (reads, writes.encoder)))
    rows = np.random.default_rng(job.seed).permutation(rows)
    parts = rows[: len(rows) * 4 // 5], rows[len(rows) * 4 // 5 :]
    pairs = [(last_states(reads, encoded, part), last_states(writes.encoder, encoded, part)) for part in parts]
    return best_ridge(pairs[0], pairs[1], settings.strengths)[1]


@torch.inference_mode()
def last_states(encoder: Any, encoded: Encoded, rows: Any) -> Floats:
    """Return an encoder's last states of all tokens of some sentences, `[n, d]`, in an order of the lengths alone."""
    chosen = encoded.take(rows)
    found = []
    for batch in evaluation_batches(chosen.lengths, batch_size=BATCH):
        ids, mask = map(torch.from_numpy, padded([chosen.ids[row] for row in batch], encoder.config.pad_token_id))
        states = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        found.append(states[mask.bool()].double().numpy())
    return np.concatenate(found)
