"""The sentence vector of a sentence-transformers folder, as its users use it: prompt, pooling and further modules."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from isoscope.base.errors import InputError, brief
from isoscope.data.checkpoints import MODEL_CONFIG, WEIGHTS, stated_length
from isoscope.data.files import parse_json, read_mapping
from isoscope.data.hub import MODULES
from isoscope.models.loading import in_one_line

PROMPTS, TRANSFORMER = "config_sentence_transformers.json", "sentence_*_config.json"
_POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
"""Poolings, in the order in which their vectors are joined → the switch of each in files of earlier versions."""
_ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": nn.Tanh,
    "torch.nn.modules.linear.Identity": nn.Identity,
    "torch.nn.modules.activation.ReLU": nn.ReLU,
    "torch.nn.modules.activation.GELU": nn.GELU,
}
_PLACE = re.compile(r"([0-9]_[\w.+-]+)?", re.ASCII)
"""Folder of a module, whose files are part of the checkpoint's digest; none for the checkpoint itself."""
Step = Callable[[Tensor], Tensor]


class Module(NamedTuple):
    """A module: its kind, such as Pooling, and the folder of its configuration and weights."""

    kind: str
    folder: Path


class SentenceHead(NamedTuple):
    """How a sentence becomes a vector.

    - `prompt` comes before each text; without `include_prompt` its tokens are not pooled.
    - `lowercase`: texts are read in lower case.
    - `longest`: most tokens of a text, None for the model's.
    - `poolings` of the last layer are joined; `steps` follow.
    - `said`: all this in words.
    """

    prompt: str
    include_prompt: bool
    lowercase: bool
    longest: int | None
    poolings: tuple[str, ...]
    steps: tuple[Step, ...]
    said: str

    def __call__(self, states: Tensor, mask: Tensor, *, skipped: int = 0) -> Tensor:
        """Return the vectors `[B, D']` of texts from their last layer `[B, T, D]`, fp32; padding is at the end.

        `skipped`: number of tokens at the beginning that are not pooled.
        """
        kept = mask.clone()
        kept[:, :skipped] = 0
        found = torch.cat([_pooled(one, states, kept, mask) for one in self.poolings], 1)
        for step in self.steps:
            found = step(found)
        return found


def sentence_head(folder: Path) -> SentenceHead | None:
    """Return how a sentence-transformers folder makes sentence vectors; None for another folder.

    Raises `InputError` for a module, pooling or activation that is not known, and for files that do not fit.
    """
    with in_one_line(folder):  # values of other types than these files have
        return _head(folder, modules) if (modules := sentence_modules(folder)) else None


def _head(folder: Path, modules: Sequence[Module]) -> SentenceHead:
    if [one.kind for one in modules[:2]] != ["Transformer", "Pooling"] or modules[0].folder != folder:
        raise InputError(f"{folder}: modules.json: expected a Transformer in this folder, then Pooling")
    file = next(iter(sorted(folder.glob(TRANSFORMER))), folder / "sentence_bert_config.json")
    options, pooling = _read(file), _read(modules[1].folder / MODEL_CONFIG)
    lowercase = bool(options.get("do_lower_case"))
    poolings, steps = _poolings(modules[1].folder / MODEL_CONFIG, pooling), [_step(one) for one in modules[2:]]
    prompt, include = _prompt(folder / PROMPTS), bool(pooling.get("include_prompt", True))
    said = [f"{' and '.join(poolings)} pooling", *(one.kind for one in modules[2:])]
    said += [f"prompt {prompt!r}" + ("" if include else ", which is not pooled")] if prompt else []
    said += ["of text in lower case"] if lowercase else []
    longest = options.get("max_seq_length")
    if longest is None:  # current versions leave it to the tokenizer
        longest = stated_length(folder)
    elif not (isinstance(longest, int) and longest > 2):
        raise InputError(f"{file}: max_seq_length: expected a number above 2, got {brief(longest)}")
    return SentenceHead(prompt, include, lowercase, longest, poolings, tuple(steps), ", ".join(said))


def sentence_modules(folder: Path) -> list[Module]:
    """Return the modules that modules.json lists, in order; none without this file.

    Raises `InputError` if the file is no list of modules, or names a folder elsewhere.
    """
    file = folder / MODULES
    if not file.is_file():
        return []
    found = parse_json(file.read_text("utf-8"), str(file))
    modules = []
    for one in found if isinstance(found, list) else [None]:
        kind, path = (one.get(key) for key in ("type", "path")) if isinstance(one, dict) else (None, None)
        if not isinstance(kind, str) or not isinstance(path, str) or not _PLACE.fullmatch(path):
            raise InputError(f"{file}: expected modules with a type and a folder here as path, got {brief(one)}")
        known = kind.startswith("sentence_transformers.")
        modules.append(Module(kind.rpartition(".")[2] if known else kind, folder / path))
    return modules


def _read(file: Path) -> Mapping[str, Any]:
    return read_mapping(file) if file.is_file() else {}


def _poolings(file: Path, options: Mapping[str, Any]) -> tuple[str, ...]:
    asked = options.get("pooling_mode")
    if asked is None:
        asked = [name for name, switch in _POOLINGS.items() if options.get(switch)] or ["mean"]
    found = tuple([asked] if isinstance(asked, str) else asked)
    if unknown := [one for one in found if one not in _POOLINGS]:
        raise InputError(f"{file}: pooling_mode: {brief(unknown[0])} is not known; expected {', '.join(_POOLINGS)}")
    return found


def _prompt(file: Path) -> str:
    options = _read(file)
    name, prompts = options.get("default_prompt_name"), options.get("prompts") or {}
    if name is None:
        return ""
    if not isinstance(prompts, dict) or not isinstance(prompts.get(name), str):
        raise InputError(f"{file}: default_prompt_name: {brief(name)} is not among the prompts; correct it")
    return str(prompts[name])


def _step(one: Module) -> Step:
    if one.kind == "Normalize":
        return F.normalize
    if one.kind == "Dropout":  # does nothing outside training
        return nn.Identity()
    if one.kind != "Dense":
        raise InputError(f"{one.folder.parent}: modules.json: the module {one.kind} is not supported")
    options, file = _read(one.folder / MODEL_CONFIG), one.folder / WEIGHTS
    called = options.get("activation_function", "torch.nn.modules.activation.Tanh")
    if called not in _ACTIVATIONS or options.get("use_residual"):
        known = ", ".join(name.rpartition(".")[2] for name in _ACTIVATIONS)
        raise InputError(
            f"{one.folder / MODEL_CONFIG}: only {known} without a residual are supported, got {brief(called)}"
        )
    try:
        weights = load_file(file)
        weight, bias = weights["linear.weight"].float(), weights.get("linear.bias")
    except (OSError, SafetensorError, KeyError) as error:
        raise InputError(
            f"{file}: expected linear.weight as safetensors ({brief(error)}); pickled weights: isoscope convert"
        ) from None
    activation = _ACTIVATIONS[called]()
    return lambda x: activation(F.linear(x, weight.to(x.device), None if bias is None else bias.to(x)))


def _pooled(pooling: str, states: Tensor, kept: Tensor, mask: Tensor) -> Tensor:
    """Return a pooling `[B, D]` of the tokens `kept`, as sentence-transformers defines it."""
    every, weight = torch.arange(len(kept), device=kept.device), kept[:, :, None].to(states.dtype)
    if pooling == "cls":
        return states[every, kept.argmax(1)]
    if pooling == "lasttoken":
        return states[every, mask.sum(1) - 1]
    if pooling == "max":
        return states.masked_fill(weight == 0, -torch.inf).amax(1)
    if pooling == "weightedmean":
        weight = weight * torch.arange(1, kept.shape[1] + 1, device=kept.device)[None, :, None]
    total = (states * weight).sum(1)
    size = weight.sum(1).clamp_min(1e-9)
    return total / (size.sqrt() if pooling == "mean_sqrt_len_tokens" else size)
