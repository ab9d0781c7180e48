"""Turn a model into transformers' own BERT, RoBERTa or encoder-decoder where its fusion is exactly an addition."""

from typing import Any

import torch

from isoscope.base.errors import InputError
from isoscope.models.embeddings import FractionalPositions, FusedTables
from isoscope.models.fused import FusionSettings
from isoscope.models.hybrid import FusionBertHybrid

_OF_FUSION = ("model_type", "architectures", "transformers_version", "use_cache", *FusionSettings.__annotations__)


def plain_reasons(model: Any) -> list[str]:
    """Return why the model computes what transformers' own class does: one reason, of an encoder-decoder up to two.

    Decided from the values of the parameters. Raises `InputError` with the reason if it computes something else.
    """
    if isinstance(model, FusionBertHybrid):
        raise InputError("a hybrid maps its encoder's states, which no class of transformers does")
    blocks = [part for part in model.modules() if isinstance(part, FusedTables)]
    if not blocks:
        return ["it is a class of transformers, with its own embedding block"]
    if type(model).__name__.endswith("ForCausalLM") and blocks[0].position_embeddings.padding_idx is not None:
        plain = _library_class(model).__name__
        raise InputError(f"in `generate`, transformers' {plain} counts positions from 0, unlike in training")
    stacks = (model.config.encoder, model.config.decoder) if model.config.is_encoder_decoder else (model.config,)
    if any(config.norm == "pre" for config in stacks):
        raise InputError("norm 'pre': LayerNorm stands before each block, and after it in transformers' class")
    return list(dict.fromkeys(map(_reason, blocks)))


def _reason(block: FusedTables) -> str:
    """Return why a block's fusion is `word + token type + position`; raise `InputError` if it is not."""
    fusion = block.fusion
    if isinstance(block.position_embeddings, FractionalPositions):
        raise InputError("positions are computed from angles, and looked up in a table in transformers' class")
    kind, gate = block.fusion_options["kind"], getattr(fusion, "gate", None)
    if kind == "additive":
        return "the fusion is additive"
    if gate is not None and gate.item() == 0:
        return f"the gate of the fusion {kind!r} is closed: its value is 0"
    if kind == "conv2d" and fusion.activation is None and fusion.normalisation == "none":
        untouched = torch.zeros_like(fusion.weight)
        untouched[:, fusion.past, fusion.weight.shape[2] // 2] = 1
        if torch.equal(fusion.weight, untouched) and (fusion.bias is None or fusion.bias.item() == 0):
            return "the kernel of the fusion 'conv2d' is the identity: training has not changed it"
    of_gate = "" if gate is None else f", its gate is {gate.item():.3g}"
    raise InputError(f"the fusion {kind!r} is not an addition{of_gate}")


@torch.no_grad()
def as_plain(model: Any) -> Any:
    """Return transformers' own model with the weights of `model`, for which `plain_reasons` has found a reason.

    A model without a fusion is returned as it is.

    The table of token types that the fusion ignores becomes zeros, and a pooler that the model lacks: nothing reads it.
    """
    if not any(isinstance(part, FusedTables) for part in model.modules()):
        return model
    plain = _library_class(model)(_plain_config(model.config)).eval()
    weights = model.state_dict()
    for name, block in model.named_modules():
        if isinstance(block, FusedTables) and not getattr(block.fusion, "uses_token_type", True):
            table = f"{name}.token_type_embeddings.weight"
            weights[table] = torch.zeros_like(weights[table])
    own = plain.state_dict()
    given = {name: value for name, value in weights.items() if ".fusion." not in f".{name}"}
    if unknown := sorted(given.keys() - own.keys()):
        raise InputError(f"{type(plain).__name__} has no {unknown[0]}")
    lacking = own.keys() - given.keys()
    if unknown := sorted(name for name in lacking if "pooler." not in name):
        raise InputError(f"{type(model).__name__} has no {unknown[0]}")
    plain.load_state_dict(given | {name: torch.zeros_like(own[name]) for name in lacking})
    return plain


def _library_class(one: Any) -> Any:
    """Return the class of transformers that the class of `one` extends."""
    return next(base for base in type(one).__mro__ if base.__module__.startswith("transformers.models."))


def _plain_config(config: Any) -> Any:
    settings = {name: value for name, value in config.to_dict().items() if name not in _OF_FUSION}
    if config.is_encoder_decoder:
        settings |= {name: _plain_config(getattr(config, name)) for name in ("encoder", "decoder")}
    return _library_class(config)(**settings)
