"""Traces of a run's state, cheap to take: what differs between two of them has been changed."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from operator import is_
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules import module as every

from isoscope.training.observers import Context


class Traces:
    """The traces of a run: its model, optimiser and data, and torch's settings, each by a name for messages."""

    def __init__(self, context: Context) -> None:
        self.model, self.optimizer, self.objective = context.model, context.optimizer, context.objective
        self._arrays = _arrays(self.objective)
        self._data = _digest(self._arrays)

    def light(self) -> dict[str, Any]:
        """Return torch's settings."""
        return {"torch's settings": _settings()}

    def all(self, *, copied: bool = False) -> dict[str, Any]:
        """Return every trace but that of the data; `copied`: weights and gradients as they are now."""
        parameters = [*self.model.parameters()]
        entries = [one for each in self.optimizer.state.values() for one in each.values() if isinstance(one, Tensor)]
        groups = [
            {key: value for key, value in group.items() if key != "params"} | {"params": [*map(id, group["params"])]}
            for group in self.optimizer.param_groups
        ]
        return {
            **self.light(),
            "weights": _exactly([*parameters, *self.model.buffers()], copied),
            "gradients": _exactly([one.grad for one in parameters if one.grad is not None], copied),
            "requires_grad": [one.requires_grad for one in parameters],
            "state of the optimiser": _lengths(entries),
            "settings of the optimiser": groups,
            "the optimiser": _Objects(_held(self.optimizer)),
            "train or eval mode": [one.training for one in self.model.modules()],
            "the objective": _Objects(vars(self.objective).values()) if hasattr(self.objective, "__dict__") else None,
            "modules or hooks": _Objects(_parts(self.model)),
            "configuration": repr(vars(self.model.config)),
        }

    def data_changed(self) -> bool:
        """Return whether the objective holds other data than at the beginning."""
        return _digest(self._arrays) != self._data


def _lengths(tensors: list[Tensor]) -> list[Any]:
    """Return identity, version and norm of tensors: no copy of the moments, which are twice as many as the weights."""
    norms = torch._foreach_norm(tensors) if tensors else ()
    return [[(id(one), one._version) for one in tensors], _Bits(norms)]


def _exactly(tensors: list[Tensor], copied: bool) -> list[Any]:
    """Return identity and bits of tensors; `copied`: the bits as they are now."""
    return [[*map(id, tensors)], _Bits(one.detach().clone() if copied else one.detach() for one in tensors)]


class _Bits:
    """Tensors that are compared bit by bit, so that NaN equals NaN."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self.tensors = [*tensors]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bits) and all(map(_equal, self.tensors, other.tensors))

    __hash__ = None  # type: ignore[assignment]


def _equal(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(*(each.reshape(-1).view(torch.uint8) for each in (one, other)))


class _Objects:
    """Objects that are compared by identity; they are held, so that no other object takes their place."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self.objects = [*objects]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Objects) or len(self.objects) != len(other.objects):
            return False
        return all(map(is_, self.objects, other.objects))

    __hash__ = None  # type: ignore[assignment]


def files(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return inode, size and time of change of each file below a folder, by relative path."""
    return {
        path.relative_to(folder).as_posix(): (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for stat in [path.stat()]
    }


def _parts(model: Any) -> Iterator[Any]:
    """Yield what the modules hold, but not their weights and their mode."""
    for module in model.modules():
        for name, value in vars(module).items():
            if name != "training":
                yield value
        for hooks in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._modules):
            yield from hooks.values()
    for one in model.parameters():
        yield from (one._backward_hooks or {}).values()
    yield from (*every._global_forward_hooks.values(), *every._global_forward_pre_hooks.values())


def _held(optimizer: Any) -> Iterator[Any]:
    """Yield what an optimiser holds, with its hooks."""
    yield from vars(optimizer).values()
    for hooks in (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks):
        yield from hooks.values()


def _settings() -> dict[str, Any]:
    """Return the global settings of torch that can change numbers, and the working folder."""
    cuda = torch.backends.cuda
    return {
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "deterministic": (torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic),
        "benchmark": torch.backends.cudnn.benchmark,
        "precision": torch.get_float32_matmul_precision(),
        "tf32": torch.backends.cudnn.allow_tf32,
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")),
        "kernels": (torch.backends.mkldnn.enabled, cuda.flash_sdp_enabled(), cuda.math_sdp_enabled()),
        "tiny numbers": float(torch.tensor(1e-40, device="cpu") * 1.0),
        "folder": os.getcwd(),  # noqa: PTH109
    }


def _arrays(one: Any) -> list[Any]:
    """Return all arrays and tensors that an object holds, in lists, mappings and objects at any depth."""
    found: list[Any] = []
    seen: set[int] = set()
    todo = [one]
    while todo:
        value = todo.pop()
        if id(value) in seen or isinstance(value, str | int | float | type | torch.nn.Module):
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray | Tensor):
            found.append(value)
        elif isinstance(value, Mapping):
            todo += value.values()
        elif isinstance(value, list | tuple):
            todo += value
        else:
            todo += getattr(value, "__dict__", {}).values()
    return found


def _digest(arrays: Iterable[Any]) -> str:
    """Return a hash over arrays and tensors."""
    digest = hashlib.sha256()
    for one in arrays:
        array = one.detach().cpu().numpy() if isinstance(one, Tensor) else one
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(repr(array.tolist()).encode() if array.dtype == object else np.ascontiguousarray(array).data)
    return digest.hexdigest()
