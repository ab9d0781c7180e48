"""Models with a head on a published checkpoint: with its own embedding block, or with a fusion."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers.configuration_utils import PreTrainedConfig

from isoscope.base.errors import InputError
from isoscope.models import families
from isoscope.models.build import SINGLE, Problem, head_settings, seeded
from isoscope.models.encoder import checkpoint_config, longest, pad_with
from isoscope.models.families import CAUSAL, CLASSIFIER, FAMILIES, HEADS, MASKED
from isoscope.models.loading import pretrained

NATIVE = "native"
"""The kind of `model.fusion` that leaves a model's own embedding block."""
_CALLED = {CLASSIFIER: "sequence classifier", MASKED: "masked language model", CAUSAL: "causal language model"}
"""End of a class's name → what it is."""
_NEW = ("embeddings.fusion.", "embeddings.position_embeddings.angles", "pooler.")
"""Weights inside of an encoder that a checkpoint may lack."""
_OF_LABELS = ("classifier.", "pre_classifier.", "classification_head.", "score.")
"""Parts of heads that are trained for labels; they are always new."""
_UNUSED = ("embeddings.position_embeddings.weight", "embeddings.LayerNorm.")
"""Weights of an embedding block that a fusion may replace or leave out."""


def load(
    folder: Path, end: str, *, fusion: Mapping[str, Any], seed: int, pad_id: int | None = None, **settings: Any
) -> Any:
    """Load the model with the head `end` from a folder with config.json and safetensors, in fp32.

    Fusion `native`: any model that transformers' Auto class loads, as that loads it. Another fusion: a model of
    `FAMILIES`, with the fusion in its embedding block. What the folder lacks of head, pooler and fusion is new, and so
    is every classifier: functions of the seed. `pad_id`: padding token of the texts, for a model that has none and for
    a decoder. `settings`: further fields of its configuration. Raises `InputError` if transformers has no such head for
    the model, if the model has no tables to fuse, and as `pretrained`.
    """
    config = checkpoint_config(folder)
    kind: Any = HEADS[end]
    if type(config) not in kind._model_mapping:
        raise InputError(
            f"checkpoint {folder}: transformers has no {_CALLED[end]} of the model type {config.model_type!r}; "
            "use another objective or checkpoint"
        )
    if fusion["kind"] != NATIVE:
        kind, config = _fused(folder, config, end, fusion)
    if end != CLASSIFIER and hasattr(config, "is_decoder"):
        config.is_decoder = end == CAUSAL
    pad_with(config, pad_id)
    given = {"architectures": None, "use_cache": False, **settings}
    config.update({name: value for name, value in given.items() if name in settings or hasattr(config, name)})
    replaced = _OF_LABELS if end == CLASSIFIER else ()
    with seeded(seed):
        model = pretrained(kind, folder, config, new=_NEW, new_head=True, replaced=replaced, unused=_UNUSED)
        with torch.no_grad():
            for name, part in model.named_modules():
                if replaced and isinstance(part, nn.Linear) and f"{name}.".startswith(replaced):
                    part.weight.normal_(std=getattr(config, "initializer_range", 0.02))
                    if part.bias is not None:
                        part.bias.zero_()
    return model


def classifier(folder: Path, *, labels: Sequence[str], problem: Problem = SINGLE, **given: Any) -> Any:
    """Load a classifier with these labels; `given`: as `load`."""
    return load(folder, CLASSIFIER, **given, **head_settings(labels, problem))


def continued(folder: Path, *, labels: Sequence[str], problem: Problem = SINGLE, **given: Any) -> tuple[Any, bool]:
    """Load another run's model, whatever its fusion, with its head if that is of these labels, else with a new head.

    Also whether it is the run's own head. `given`: as `load`.
    """
    config, asked = checkpoint_config(folder), head_settings(labels, problem)
    heads: Any = HEADS[CLASSIFIER]._model_mapping
    kind = heads.get(type(config), None)
    classifies = kind is not None and config.architectures == [kind.__name__]
    if classifies and asked == {name: getattr(config, name) for name in asked}:
        return pretrained(kind, folder, config), True
    return classifier(folder, labels=labels, problem=problem, fusion={"kind": NATIVE}, **given), False


def check_fits(model: Any, max_length: int, vocabulary: int = 0) -> None:
    """Check that a model takes texts of `max_length` tokens, and that its word table has `vocabulary` rows.

    The length is found by a forward pass, because models state it in many ways. Raises `InputError`.
    """
    if (most := longest(model.base_model, max_length)) < max_length:
        raise InputError(f"model.max_length: {max_length}, but the checkpoint takes {most} tokens; set it to {most}")
    if vocabulary > (rows := model.get_input_embeddings().num_embeddings):
        raise InputError(
            f"model.encoder: the tokenizer has {vocabulary} tokens, but the model's word table has {rows} rows; use "
            "the tokenizer that it was trained with"
        )


def _fused(folder: Path, plain: PreTrainedConfig, end: str, fusion: Mapping[str, Any]) -> tuple[type[Any], Any]:
    """Return a family's class with a fusion, and its configuration with the settings of the checkpoint's `plain`."""
    found = FAMILIES.get(plain.model_type)
    if found is None:
        raise InputError(
            f"model.fusion.kind: {fusion['kind']!r}, but checkpoint {folder} is of the model type "
            f"{plain.model_type!r}: {_no_tables(plain)}; set native, or use a model of {', '.join(FAMILIES)}"
        )
    own = {name: value for name, value in plain.to_dict().items() if name in plain.__dataclass_fields__}
    own |= {"architectures": None, "dtype": None, "init_std": plain.initializer_range, "fusion": dict(fusion)}
    return families.of(plain.model_type, end), found(**own)


def _no_tables(config: PreTrainedConfig) -> str:
    """Return why a model has no word and position table to fuse."""
    set_ = [name for name, value in config.to_dict().items() if value]
    if any(name.startswith("rope_") for name in set_):
        return "its positions rotate queries and keys (RoPE), so no position table meets the word table"
    if any(name.startswith("relative_attention") for name in set_):
        return "its positions are relative, between pairs of tokens, so no position table meets the word table"
    return "it has no embedding block of a word and a position table"
