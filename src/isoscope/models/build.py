"""A classifier from scratch or from a published checkpoint, and what training asks of its fusion."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers.models.bert.configuration_bert import BertConfig
from transformers.utils import logging

from isoscope.errors import InputError
from isoscope.models.bert import FusionBertConfig, FusionBertForSequenceClassification

_FUSION = "bert.embeddings.fusion."
_NEW = (_FUSION, "classifier.", "bert.pooler.")  # what a plain encoder may lack
_DROPPED = ("cls.",)  # heads of pre-training, which classification does not use


def from_scratch(
    *,
    fusion: Mapping[str, Any],
    vocab_size: int,
    hidden_size: int,
    layers: int,
    heads: int,
    intermediate_size: int,
    max_positions: int,
    dropout: float,
    attention_dropout: float,
    init_std: float,
    initializer_range: float,
    labels: Sequence[str],
    pad_id: int,
    seed: int,
) -> FusionBertForSequenceClassification:
    """A BERT classifier of random weights, a function of its arguments alone.

    Word, position and token-type tables are drawn from N(0, init_std²), all other matrices from N(0,
    initializer_range²), biases are 0; one seed gives the same weights outside the fusion whatever the fusion is.
    Raises `InputError` on a fusion that cannot be built and on fewer than two labels.
    """
    config = FusionBertConfig(
        fusion=dict(fusion),
        init_std=init_std,
        initializer_range=initializer_range,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=intermediate_size,
        max_position_embeddings=max_positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=attention_dropout,
        pad_token_id=pad_id,
        **_head(labels),
    )
    with seeded(seed):
        return FusionBertForSequenceClassification(config)


def from_checkpoint(
    folder: Path, *, fusion: Mapping[str, Any], labels: Sequence[str], seed: int
) -> FusionBertForSequenceClassification:
    """A classifier on the weights of a plain BERT checkpoint: a folder with config.json and model.safetensors.

    New are the fusion, the classifier and, where the checkpoint has none, the pooler: functions of the seed. The
    classifier is new even if the checkpoint has one. Weights come in fp32.
    Raises `InputError` where the folder holds no BERT, or its weights are not exactly the encoder's.
    """
    plain = _plain_config(folder)
    settings = {key: value for key, value in plain.to_dict().items() if key in BertConfig.__dataclass_fields__}
    settings |= {"architectures": None, "dtype": None, "init_std": plain.initializer_range, "fusion": dict(fusion)}
    config = FusionBertConfig(**settings | _head(labels))
    with seeded(seed), quiet():
        try:
            loaded: Any = FusionBertForSequenceClassification.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
        except (OSError, SafetensorError) as error:
            raise InputError(f"checkpoint {folder}: {str(error).splitlines()[0]}") from error
        model, info = loaded
        _check_loaded(folder, info)
        with torch.no_grad():  # whatever the checkpoint's own classifier was for, it was not for these labels
            model.classifier.weight.normal_(std=config.initializer_range)
            model.classifier.bias.zero_()
    return model


def fusion_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The fusion's parameters by their full names in the model; empty for additive and a plain FFT."""
    return {name: value for name, value in model.named_parameters() if name.startswith(_FUSION)}


def fusion_distance(model: nn.Module, start: Mapping[str, Tensor]) -> float | None:
    """How far the fusion moved from `start` (tensors by full name): `‖θ − θ₀‖ / ‖θ₀‖`, or `‖θ‖` where θ₀ = 0.

    Norms are L2 over all parameters of the fusion together. None where it has none.
    """
    now = fusion_parameters(model)
    if not now:
        return None
    before = torch.cat([start[name].detach().flatten().double().cpu() for name in now])
    after = torch.cat([value.detach().flatten().double().cpu() for value in now.values()])
    scale = float(before.norm())
    return float((after - before).norm()) / (scale or 1.0)


def freezable(model: FusionBertForSequenceClassification, *, embeddings: bool, layers: int) -> set[str]:
    """Names of the parameters that freezing concerns: the embedding tables and their LayerNorm, the first layers.

    The fusion is not among them: it is what is studied, and mostly new. Raises `InputError` on more layers than are.
    """
    depth = model.config.num_hidden_layers
    if layers > depth:
        raise InputError(f"training.freeze.layers: {layers}, but the encoder has {depth} layers")
    prefixes = tuple(f"bert.encoder.layer.{index}." for index in range(layers))
    names = {name for name, _ in model.named_parameters() if name.startswith(prefixes)}
    if embeddings:
        names |= {
            name
            for name, _ in model.named_parameters()
            if name.startswith("bert.embeddings.") and not name.startswith(_FUSION)
        }
    return names


def _head(labels: Sequence[str]) -> dict[str, Any]:
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise InputError(f"labels: {list(labels)} should be two or more different names")
    return {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: index for index, label in enumerate(labels)},
        "problem_type": "single_label_classification",
    }


def _plain_config(folder: Path) -> BertConfig:
    file = folder / "config.json"
    if not file.is_file():
        raise InputError(f"checkpoint {folder}: no config.json in it")
    settings = json.loads(file.read_text("utf-8"))
    if settings.get("model_type") != "bert":
        raise InputError(f"checkpoint {folder}: model type {settings.get('model_type')!r}, expected 'bert'")
    return BertConfig(**settings)


def _check_loaded(folder: Path, info: Mapping[str, Any]) -> None:
    lacking = sorted(key for key in info["missing_keys"] if not key.startswith(_NEW))
    extra = sorted(key for key in info["unexpected_keys"] if not key.startswith(_DROPPED))
    other = sorted(key for key, *_ in info["mismatched_keys"] if not key.startswith("classifier."))
    for what, keys in (("lacks", lacking), ("has, and BERT has not,", extra), ("has in another shape", other)):
        if keys:
            named = ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
            raise InputError(f"checkpoint {folder}: {what} {named}")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw weights from `seed` and leave the global generator as it was; parameters are made on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """No bar and no table of new weights: what is new is checked here."""
    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()
