"""Record a run's golden trace: a change of the code that changes no number keeps it bit by bit."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

FILE = "trace.json"
STEPS = 8
"""Updates that a trace holds."""

Trace = dict[str, Any]
Weights = Callable[[], Iterable[tuple[str, torch.Tensor]]]


def begin(figures: Mapping[str, float]) -> Trace:
    """Start a trace from the validation metrics before the first update; floats as hexadecimals, which are exact."""
    return {"validation": {name: value.hex() for name, value in figures.items()}, "steps": [], "weights": None}


def add(trace: Trace, loss: float, gradient_norm: float, weights: Weights) -> None:
    """Add one update: its loss, its gradient norm and, after the last update, the sha256 over all weights."""
    if len(trace["steps"]) < STEPS:
        trace["steps"].append([loss.hex(), gradient_norm.hex()])
        if len(trace["steps"]) == STEPS:
            trace["weights"] = _sha256(weights())


def difference(before: Trace, now: Trace) -> str | None:
    """Return the first difference between two traces as a message; None if every bit is equal."""
    for name in before["validation"].keys() | now["validation"].keys():
        a, b = (trace["validation"].get(name) for trace in (before, now))
        if a != b:
            return f"validation {name} before the first update: {_shown(a)} then, {_shown(b)} now"
    if len(before["steps"]) != len(now["steps"]):
        return f"{len(before['steps'])} updates then, {len(now['steps'])} now"
    for step, pair in enumerate(zip(before["steps"], now["steps"], strict=True), start=1):
        for name, a, b in zip(("loss", "gradient norm"), *pair, strict=True):
            if a != b:
                return f"{name} of update {step}: {_shown(a)} then, {_shown(b)} now"
    return None if before["weights"] == now["weights"] else f"weights after update {STEPS}"


def _shown(value: str | None) -> str:
    return "absent" if value is None else repr(float.fromhex(value))


def _sha256(weights: Iterable[tuple[str, torch.Tensor]]) -> str:
    digest = hashlib.sha256()
    for name, value in weights:
        array = value.detach().cpu().contiguous().numpy()
        digest.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode())
        digest.update(array.data)
    return digest.hexdigest()
