"""Fusion options, tiny models and batches with padding, for the tests of models."""

from typing import Any

import torch
from torch import Tensor

from isoscope.models import FusionBertConfig, FusionRobertaConfig

CONV2D: dict[str, Any] = {
    "kind": "conv2d",
    "start": "random",
    "kernel_size": [3, 3],
    "activation": "gelu",
    "bias": False,
    "gate": None,
    "sources": ["word", "position"],
    "token_type": "ignore",
    "normalisation": "none",
}
FFT: dict[str, Any] = {
    "kind": "fft",
    "start": "random",
    "sources": ["word", "position"],
    "token_type": "add",
    "normalisation": "none",
}
THREE = ["word", "position", "token_type"]
FUSIONS: dict[str, dict[str, Any]] = {
    "additive": {"kind": "additive"},
    "scaled": {"kind": "scaled"},
    "marian": {"kind": "marian", "token_type": "ignore"},
    "conv2d": CONV2D,
    "conv2d-5x5-bias-gate": CONV2D | {"kernel_size": [5, 5], "bias": True, "gate": 0.5, "token_type": "add"},
    "conv2d-three-l2": CONV2D | {"sources": THREE, "normalisation": "l2"},
    "conv2d-identity": CONV2D | {"start": "identity", "activation": "none", "token_type": "add"},
    "conv2d-residual": CONV2D | {"start": "residual", "token_type": "add"},
    "fft": FFT,
    "fft-three-l2": FFT
    | {"sources": ["word", "position", "token_type"], "token_type": "ignore", "normalisation": "l2"},
    "fft-residual": FFT | {"start": "residual"},
    "fft-power-delta": FFT | {"magnitudes": "power", "exponent": 0.5, "start": "delta"},
    "fft-phase-complex": FFT | {"magnitudes": "phase", "output": "complex"},
    "fft-learned-positions": FFT | {"positions": "learned"},
    "conv2d-frozen-permuted": CONV2D | {"kernel": "frozen", "hidden_axes": "permuted"},
    "linear": {
        "kind": "linear",
        "blocks": 5,
        "activation": "gelu",
        "sources": ["word", "position"],
        "token_type": "ignore",
        "normalisation": "none",
    },
}
TABLELESS = {name for name, fusion in FUSIONS.items() if fusion.get("positions", "table") != "table"}
"""Fusions that have angles in place of a position table."""
VOCABULARY, WIDTH, POSITIONS = 50, 16, 24
PAD = 1  # of the RoBERTas


SCRATCH: dict[str, Any] = {
    "family": "bert",
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "layers": 2,
    "heads": 4,
    "intermediate_size": 32,
    "activation": "gelu",
    "norm": "post",
    "positions": "learned",
    "max_positions": POSITIONS,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "init_std": 0.5,
    "initializer_range": 0.3,
    "seed": 0,
}
"""Arguments that `from_scratch` of classifiers and of language models have in common, except `fusion`."""


def config(fusion: dict[str, Any], family: type[Any] = FusionBertConfig, **changes: Any) -> Any:
    """A tiny encoder whose weights are large enough that no effect hides below a tolerance."""
    settings: dict[str, Any] = {
        "fusion": fusion,
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 32,
        "max_position_embeddings": POSITIONS,
        "init_std": 0.5,
        "initializer_range": 0.3,
    }
    if family is FusionRobertaConfig:  # its first rows of positions are the padding's
        settings |= {"pad_token_id": PAD, "max_position_embeddings": POSITIONS + PAD + 1, "type_vocab_size": 2}
    return family(**settings | changes)


def batch(lengths: tuple[int, ...] = (9, 4, 6), *, padded: bool = False) -> dict[str, Tensor]:
    """Token ids, segment ids and mask, padded on the right to the longest; padding holds arbitrary tokens.

    `padded`: it holds `PAD`, which no text has.
    """
    draw = torch.Generator().manual_seed(0)
    shape = len(lengths), max(lengths)
    mask = (torch.arange(shape[1]) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(1, VOCABULARY, shape, generator=draw)
    return {
        "input_ids": ids.where(ids != PAD, 7).where(mask.bool(), PAD) if padded else ids,
        "token_type_ids": torch.randint(0, 2, shape, generator=draw),
        "attention_mask": mask,
    }


def library_model(model: Any, kind: Any, **changes: Any) -> Any:
    """Return transformers' own class `kind` with the configuration and the weights of `model`."""
    plain = {key: value for key, value in model.config.to_dict().items() if key not in ("fusion", "init_std")}
    theirs = kind(kind.config_class(**plain | changes)).eval()
    theirs.load_state_dict(model.state_dict())
    return theirs


def make(kind: type[Any], fusion: dict[str, Any], **changes: Any) -> Any:
    torch.manual_seed(0)
    model = kind(config(fusion, kind.config_class, **changes)).eval()
    gate = getattr(model.base_model.embeddings.fusion, "gate", None)
    if gate is not None:
        torch.nn.init.constant_(gate, 0.7)  # a residual start would hide its own function
    return model
