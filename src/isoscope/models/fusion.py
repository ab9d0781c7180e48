"""Build the fusion of an encoder from its options, and check what a plugin's fusion returns."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from isoscope.base.errors import InputError, brief
from isoscope.base.registry import FUSIONS


def build_fusion(fusion: Mapping[str, Any], *, hidden_size: int, causal: bool, init_std: float) -> nn.Module:
    """Build the module that `fusion` describes: `kind`, a built-in name or a registered plugin's, and its options.

    `init_std` is the standard deviation of the tables at the start. A plugin in a `causal` encoder must set
    `causal = True` on its module: it uses no later token. Raises `InputError` for an unknown kind, for missing or
    unknown options, and for invalid values: a config.json may have any.
    """
    options = dict(fusion)
    kind = options.pop("kind", None)
    if kind not in FUSIONS:
        known = ", ".join(FUSIONS)
        raise InputError(f"model.fusion.kind: {kind!r} is none of {known}; a custom fusion must be loaded as a plugin")
    entry = FUSIONS[kind]
    complete = entry.checked(options, "model.fusion")
    module = entry.make(complete, hidden_size=hidden_size, causal=causal, init_std=init_std)
    if not isinstance(module, nn.Module):
        raise InputError(f"{entry.title}: returns {brief(module)}; expected a torch.nn.Module")
    if causal and not entry.built_in and getattr(module, "causal", False) is not True:
        raise InputError(
            f"model.fusion.kind: {kind!r} does not set `causal = True` on its module, so a causal model cannot use it"
        )
    return module


def check_fused(fused: Any, word: Tensor, *, kind: str, first: bool) -> None:
    """Check a plugin's output: shape and type of `word`, and finite if `first`; else raise `InputError`."""
    title = FUSIONS[kind].title if kind in FUSIONS else f"fusion {kind!r}"
    if not isinstance(fused, Tensor) or fused.shape != word.shape or fused.dtype != word.dtype:
        found = f"{list(fused.shape)} of {fused.dtype}" if isinstance(fused, Tensor) else brief(fused)
        raise InputError(f"{title}: returns {found}; expected {list(word.shape)} of {word.dtype}")
    if first and not bool(fused.isfinite().all()):
        raise InputError(f"{title}: returns NaN or infinity for the first batch")
