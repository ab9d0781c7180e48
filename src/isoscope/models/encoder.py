"""Load the bare encoder or decoder of any Hugging Face checkpoint, and build its random-weights control."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
)

import isoscope.models.hybrid  # noqa: F401 - registers the fusion architectures
from isoscope.base.errors import InputError, said
from isoscope.data.checkpoints import check_sizes, loadable_config
from isoscope.models.build import seeded
from isoscope.models.loading import check_shapes, in_one_line, precision, pretrained, quiet, reads_and_writes

TWIN_SEED = 10_000
"""Added to a twin's seed, so that the random-weights control never repeats the model's own initialisation."""
WITHIN = ("pooler.",)  # may be missing: no hidden state passes through it


def load_encoder(folder: Path, *, as_stored: bool = False) -> Any:
    """Load the model without a head, in fp32 and evaluation mode; for an encoder-decoder, load its encoder.

    `as_stored`: weights that are stored in bf16 stay in bf16. Raises `InputError` if the folder holds no checkpoint of
    a text transformer, and as `loading.pretrained` does.
    """
    return bare(_load(AutoModel, folder, as_stored=as_stored))


def load_classifier(folder: Path) -> Any:
    """Load the classifier of a training run's snapshot in evaluation mode; its `base_model` is the encoder.

    Weights that are stored in bf16 stay in bf16, others are in fp32.

    Raises `InputError` as `load_encoder` does, and if the folder holds no sequence classifier.
    """
    return _load(AutoModelForSequenceClassification, folder, as_stored=True)


def _load(kind: Any, folder: Path, *, as_stored: bool) -> Any:
    config = checkpoint_config(folder)
    return pretrained(kind, folder, config, new=WITHIN, only_reads=True, as_stored=as_stored).eval()


def random_encoder(folder: Path, *, seed: int, as_stored: bool = False) -> Any:
    """Build a model of the checkpoint's architecture with random weights, initialised as from scratch.

    `as_stored`: in the precision in which `load_encoder` keeps the checkpoint's.
    """
    config = checkpoint_config(folder)
    check_shapes(AutoModel, folder, config)
    with seeded(seed), quiet(), in_one_line(folder):
        return bare(AutoModel.from_config(config, dtype=precision(folder, as_stored=as_stored))).eval()


def twin(model: Any, *, seed: int) -> Any:
    """Build a random-weights control of `model` in evaluation mode: of the same kind, device and precision."""
    with seeded(seed), quiet():
        return type(model)(copy.deepcopy(model.config)).to(next(model.parameters())).eval()


def bare(model: Any) -> Any:
    """Return the part that reads text: an encoder-decoder's encoder, or the model. Raises `InputError` if none does."""
    reads = model.get_encoder() if reads_and_writes(model) else model
    if (takes := getattr(reads, "main_input_name", "input_ids")) != "input_ids":
        raise InputError(f"{type(model).__name__}: takes {takes}, so it is not a text transformer")
    return reads


def writes(config: Any) -> bool:
    """Return whether a model of one stack is a decoder: as its configuration says, or of a family without encoders."""
    families: list[Any] = [AutoModelForCausalLM._model_mapping, AutoModelForMaskedLM._model_mapping]
    return bool(getattr(config, "is_decoder", False)) or [type(config) in one for one in families] == [True, False]


def pad_with(config: Any, pad_id: int | None) -> None:
    """Set the padding token of a model that has none, or of a decoder: its classifier reads the token before it."""
    if pad_id is not None and (getattr(config, "pad_token_id", None) is None or writes(config)):
        config.pad_token_id = pad_id


@torch.no_grad()
def causal(model: Any, ids: NDArray[np.int32]) -> bool:
    """Return whether the model is causal: the first token of `ids` has the same vector alone as before the others."""
    was_training, device, first = model.training, next(model.parameters()).device, []
    model.eval()  # dropout would differ
    for tokens in (ids, ids[:1]):
        inputs = torch.from_numpy(tokens[None].astype(np.int64)).to(device)
        found = model(input_ids=inputs, output_hidden_states=True, return_dict=True).hidden_states[-1]
        first.append(found[0, 0].float())
    model.train(was_training)
    rounding = max(1e-4, 8 * torch.finfo(found.dtype).eps)
    return bool((first[0] - first[1]).norm() <= rounding * first[0].norm())


def checkpoint_config(folder: Path) -> Any:
    """Return the configuration of a checkpoint. Raises `InputError` if it is no text transformer."""
    check_sizes(folder, loadable_config(folder))
    try:
        with quiet():
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # invalid values raise many kinds of errors, each architecture its own
        raise InputError(f"checkpoint {folder}: config.json: {said(error)}") from None
    if not getattr(config, "num_hidden_layers", 0) or not getattr(config, "vocab_size", 0):
        raise InputError(f"checkpoint {folder}: {config.model_type!r} is not a text transformer")
    return config


def positions(model: Any) -> int:
    """Return the maximum number of tokens that a model states."""
    for name, part in model.named_modules():
        if name.endswith("position_embeddings") and hasattr(part, "num_embeddings"):
            # RoBERTa and related models reserve the rows up to the padding id.
            return int(part.num_embeddings - (0 if part.padding_idx is None else part.padding_idx + 1))
    relative = any("relative_attention_bias" in name for name, _ in model.named_parameters())
    # T5's `n_positions` is the length of its training texts: its relative positions have no end.
    for name in ("max_position_embeddings", *(() if relative else ("n_positions",))):
        if (found := getattr(model.config, name, None)) and found > 0:  # XLNet: -1
            return int(found)
    return 10**6


@torch.no_grad()
def longest(model: Any, most: int) -> int:
    """Return the largest number of tokens, up to `most` and to what it states, that a model takes: found by running it.

    Raises `InputError` for a model that takes no token.
    """
    reads, was_training = bare(model), model.training
    reads.eval()
    padding = getattr(model.config, "pad_token_id", None) or 0
    token = torch.full((1, 1), int(padding == 0), device=next(reads.parameters()).device)
    low, high, fault = 0, min(most, positions(reads)), ""
    tried = high
    while low < high:  # at first the whole, which nearly every model takes
        try:
            reads(input_ids=token.expand(1, tried))
            low = tried
        except torch.OutOfMemoryError:
            raise
        except (IndexError, RuntimeError, TypeError, ValueError, InputError) as error:
            high, fault = tried - 1, said(error)
        tried = (low + high + 1) // 2
    reads.train(was_training)
    if not low:
        raise InputError(f"{type(model).__name__}: takes no text: {fault}")
    return low
