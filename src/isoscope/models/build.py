"""Build a classifier from scratch, and find a fusion's parameters."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from isoscope.base.errors import InputError
from isoscope.models import families
from isoscope.models.families import FAMILIES

Problem = Literal["single_label_classification", "multi_label_classification", "regression"]
"""What a head predicts, as transformers calls it: a class, labels, or a number."""
SINGLE: Problem = "single_label_classification"
_FUSION = "embeddings.fusion."
_ANGLES = "embeddings.position_embeddings.angles"


def configuration(
    *,
    family: str,
    fusion: Mapping[str, Any],
    vocab_size: int,
    hidden_size: int,
    layers: int,
    heads: int,
    intermediate_size: int,
    activation: str,
    norm: str,
    positions: str,
    max_positions: int,
    dropout: float,
    attention_dropout: float,
    init_std: float,
    initializer_range: float,
    pad_id: int,
    **others: Any,
) -> Any:
    """Return the configuration of an encoder of the family `bert` or `roberta`; `others` are fields of transformers."""
    own = FAMILIES[family]
    padding = pad_id + 1 if family == "roberta" else 0  # rows before that of a text's first token
    return own(
        fusion=dict(fusion),
        init_std=init_std,
        initializer_range=initializer_range,
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=intermediate_size,
        hidden_act=activation,
        norm=norm,
        positions=positions,
        max_position_embeddings=padding + max_positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=attention_dropout,
        pad_token_id=pad_id,
        **others,
    )


def from_scratch(*, family: str, labels: Sequence[str], seed: int, problem: Problem = SINGLE, **encoder: Any) -> Any:
    """Build a classifier with random weights, a function of its arguments alone; `encoder`: see `configuration`.

    Word, position and token-type tables are drawn from N(0, init_std²), all other matrices from N(0,
    initializer_range²); biases are 0. With one seed, weights outside the fusion are the same for every fusion. Raises
    `InputError` if the fusion cannot be built, and for fewer than two labels.
    """
    config = configuration(family=family, **encoder, **head_settings(labels, problem))
    with seeded(seed):
        return families.of(family, families.CLASSIFIER)(config)


def fusion_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the fusion's parameters, with learned angles, by their full names; empty for additive and a plain FFT."""
    return {name: one for name, one in model.named_parameters() if _FUSION in name or name.endswith(_ANGLES)}


def fusion_distance(model: nn.Module, start: Mapping[str, Tensor]) -> float | None:
    """Return how far the fusion moved from `start` (tensors by full name): `‖θ − θ₀‖ / ‖θ₀‖`, or `‖θ‖` if θ₀ = 0.

    Norms are L2 over all parameters of the fusion together. None if it has no parameters.
    """
    if not (now := fusion_parameters(model)):
        return None
    before = torch.cat([start[name].detach().flatten().double().cpu() for name in now])
    after = torch.cat([value.detach().flatten().double().cpu() for value in now.values()])
    scale = float(before.norm())
    return float((after - before).norm()) / (scale or 1.0)


def head_settings(labels: Sequence[str], problem: Problem) -> dict[str, Any]:
    """Return the fields of a configuration that describe a head. Raises `InputError` for too few or equal labels."""
    if len(labels) < 1 + (problem == SINGLE) or len(set(labels)) < len(labels):
        raise InputError(f"labels: {list(labels)}; expected two or more different names")
    return {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: index for index, label in enumerate(labels)},
        "problem_type": problem,
    }


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw weights from `seed` and leave the global generator unchanged; parameters are created on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def check_device(device: str, *, key: str, cure: str | None = None) -> str:
    """Return the device, `auto` as cuda where there is a card, else cpu.

    Raises `InputError`, naming `key`, if it is absent. `cure`: what to do [default: set `key` by -S].
    """
    here = _card_here()
    if device == "auto":
        return "cuda" if here else "cpu"
    if device == "cuda" and not here:
        raise InputError(f"{key}: 'cuda' is not available on this machine; use {cure or f'-S {key}=cpu'}")
    return device


def _card_here() -> bool:
    """Return whether CUDA works, without a CUDA context of this process: it could not be forked then."""
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    if "MIG-" in os.environ.get("CUDA_VISIBLE_DEVICES", ""):  # NVML does not count parts of a card
        asked = "import sys, torch; sys.exit(not torch.cuda.is_available())"
        return subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0
    return torch.cuda.is_available()


def warn_of_emulation(precision: str, *, device: str, key: str) -> None:
    """Warn on stderr, naming `key`, if bf16 is requested on a CPU without bf16 instructions.

    The results are the same, but about fifty times slower than in fp32, and nothing else reports it.
    """
    # torch's own check for bf16 kernels in its CPU library; it has no public name.
    if precision == "bf16" and device == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        print(f"warning: {key}: bf16 is emulated on this CPU, many times slower than fp32", file=sys.stderr)
