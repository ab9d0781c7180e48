"""Build a classifier from scratch or load a published checkpoint, and find its fusion's parameters."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers.models.bert.configuration_bert import BertConfig
from transformers.models.roberta.configuration_roberta import RobertaConfig

from isoscope.base.errors import InputError, said
from isoscope.data.checkpoints import check_sizes, loadable_config
from isoscope.models.bert import FusionBertConfig, FusionBertForSequenceClassification
from isoscope.models.loading import pretrained
from isoscope.models.roberta import FusionRobertaConfig, FusionRobertaForSequenceClassification

Problem = Literal["single_label_classification", "multi_label_classification", "regression"]
"""What a head predicts, as transformers calls it: a class, labels, or a number."""
SINGLE: Problem = "single_label_classification"
Classifier = FusionBertForSequenceClassification | FusionRobertaForSequenceClassification


class Family(NamedTuple):
    """A family of encoders: its plain configuration, its fusion configuration and its classifier.

    `first_position` maps the padding id to the row of the position table of a text's first token.
    """

    plain: type[BertConfig | RobertaConfig]
    config: type[FusionBertConfig | FusionRobertaConfig]
    classifier: Any
    """The fusion classifier's class; it takes `config`."""
    first_position: Callable[[int], int]


FAMILIES = {
    "bert": Family(BertConfig, FusionBertConfig, FusionBertForSequenceClassification, lambda pad_id: 0),
    "roberta": Family(
        RobertaConfig,
        FusionRobertaConfig,
        FusionRobertaForSequenceClassification,
        lambda pad_id: pad_id + 1,
    ),
}
_FUSION = "embeddings.fusion."
_TABLE = "embeddings.position_embeddings.weight"  # unexpected only where `_ANGLES` take its place
_ANGLES = "embeddings.position_embeddings.angles"
_NEW = (_FUSION, _ANGLES, "classifier.", "pooler.")  # weights that a plain encoder may lack


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
    kind = FAMILIES[family]
    return kind.config(
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
        max_position_embeddings=kind.first_position(pad_id) + max_positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=attention_dropout,
        pad_token_id=pad_id,
        **others,
    )


def from_scratch(
    *, family: str, labels: Sequence[str], seed: int, problem: Problem = SINGLE, **encoder: Any
) -> Classifier:
    """Build a classifier with random weights, a function of its arguments alone; `encoder`: see `configuration`.

    Word, position and token-type tables are drawn from N(0, init_std²), all other matrices from N(0,
    initializer_range²); biases are 0. With one seed, weights outside the fusion are the same for every fusion. Raises
    `InputError` if the fusion cannot be built, and for fewer than two labels.
    """
    config = configuration(family=family, **encoder, **_head(labels, problem))
    with seeded(seed):
        model: Classifier = FAMILIES[family].classifier(config)
        return model


def from_checkpoint(
    folder: Path, *, fusion: Mapping[str, Any], labels: Sequence[str], seed: int, problem: Problem = SINGLE
) -> Classifier:
    """Build a classifier on the weights of a plain BERT or RoBERTa: a folder with config.json and model.safetensors.

    The fusion, the classifier and, if the BERT has none, the pooler are new: functions of the seed. The classifier is
    new even if the checkpoint has one. Weights are fp32. Raises `InputError` if the folder holds neither family, or if
    its weights are not exactly the encoder's.
    """
    found = loadable_config(folder)
    if (kind := found.get("model_type")) not in list(FAMILIES):
        raise InputError(f"checkpoint {folder}: model type {kind!r}, expected {' or '.join(map(repr, FAMILIES))}")
    check_sizes(folder, found)
    family = FAMILIES[kind]
    try:
        plain = family.plain(**found)
    except Exception as error:  # invalid values raise many kinds of errors
        raise InputError(f"checkpoint {folder}: config.json: {said(error)}") from None
    settings = {key: value for key, value in plain.to_dict().items() if key in family.plain.__dataclass_fields__}
    settings |= {"architectures": None, "dtype": None, "init_std": plain.initializer_range, "fusion": dict(fusion)}
    config = family.config(**settings | _head(labels, problem))
    with seeded(seed):
        model: Classifier = pretrained(
            family.classifier, folder, config, new=_NEW, replaced=("classifier.",), unused=(_TABLE,)
        )
        with torch.no_grad():  # the checkpoint's own classifier was trained for other labels
            for part in model.classifier.modules():
                if isinstance(part, nn.Linear):
                    part.weight.normal_(std=config.initializer_range)
                    part.bias.zero_()
    return model


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


def _head(labels: Sequence[str], problem: Problem) -> dict[str, Any]:
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


def check_device(device: str, *, key: str, cure: str | None = None) -> None:
    """Raise `InputError`, naming `key`, if the device is absent. `cure`: what to do [default: set `key` by -S]."""
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError(f"{key}: 'cuda' is not available on this machine; use {cure or f'-S {key}=cpu'}")


def warn_of_emulation(precision: str, *, device: str, key: str) -> None:
    """Warn on stderr, naming `key`, if bf16 is requested on a CPU without bf16 instructions.

    The results are the same, but about fifty times slower than in fp32, and nothing else reports it.
    """
    # torch's own check for bf16 kernels in its CPU library; it has no public name.
    if precision == "bf16" and device == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        print(f"warning: {key}: bf16 is emulated on this CPU, many times slower than fp32", file=sys.stderr)
