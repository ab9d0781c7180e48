"""The bare encoder or decoder of any Hugging Face checkpoint, and its twin that never learned."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

import isoscope.models  # noqa: F401 - registers the fusions' architecture
from isoscope.errors import InputError
from isoscope.models.build import quiet, seeded

WITHIN = ("pooler.",)  # may be missing: no hidden state passes through it


def load_encoder(folder: Path) -> Any:
    """The model without a head, in fp32 and evaluation mode.

    Raises `InputError` where the folder is no checkpoint of a text transformer, weights are missing or no safetensors,
    or hold NaN or infinity.
    """
    return _load(AutoModel, folder)


def load_classifier(folder: Path) -> Any:
    """The classifier in a training run's snapshot, in fp32 and evaluation mode; its `base_model` is the encoder.

    Raises `InputError` as `load_encoder` does, and where the folder holds no classifier of sequences.
    """
    return _load(AutoModelForSequenceClassification, folder)


def _load(kind: Any, folder: Path) -> Any:
    config = _config(folder)
    with quiet():
        try:
            model, info = kind.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
            )
        except (OSError, ValueError, SafetensorError, RuntimeError) as error:
            raise InputError(f"checkpoint {folder}: {str(error).strip().splitlines()[0]}") from error
    lacking = sorted(key for key in info["missing_keys"] if not key.startswith(WITHIN))
    if lacking:
        named = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
        raise InputError(f"checkpoint {folder}: weights are missing: {named}")
    for name, value in model.named_parameters():
        if not torch.isfinite(value).all():
            raise InputError(f"checkpoint {folder}: {name} holds NaN or infinity")
    return model.eval()


def random_encoder(folder: Path, *, seed: int) -> Any:
    """A model of the checkpoint's architecture with weights drawn anew, as it would start from scratch."""
    with seeded(seed), quiet():
        return AutoModel.from_config(_config(folder), dtype=torch.float32).eval()


def _config(folder: Path) -> Any:
    file = folder / "config.json"
    if not file.is_file():
        raise InputError(f"checkpoint {folder}: no config.json in it; give a Hugging Face checkpoint's folder")
    try:
        settings = json.loads(file.read_text("utf-8"))
        if settings.get("auto_map"):
            raise InputError(f"{file}: asks for code of its own (auto_map), and none is run; take another")
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except (ValueError, KeyError, OSError) as error:
        raise InputError(f"checkpoint {folder}: {' '.join(str(error).split())[:200]}") from None
    if not getattr(config, "num_hidden_layers", 0) or not getattr(config, "vocab_size", 0):
        raise InputError(f"checkpoint {folder}: {config.model_type!r} is no transformer over text")
    return config


def positions(model: Any) -> int:
    """How many tokens a model takes at most."""
    for name in ("max_position_embeddings", "n_positions"):
        if found := getattr(model.config, name, None):
            # RoBERTa and its kin keep the rows up to the padding id for themselves.
            kept = (model.config.pad_token_id or 0) + 1 if "roberta" in model.config.model_type else 0
            return int(found) - kept
    return 10**6
