"""Load the weights of a checkpoint, and check that they and its configuration say the same.

All models that are read from a folder come through `pretrained`. transformers itself drops weights that the
configuration does not name, and draws weights that the folder lacks.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers.initialization import no_init_weights
from transformers.utils import logging

from isoscope.base.errors import InputError, RunError, plugins_named, said
from isoscope.data.checkpoints import kept_in_bf16, weight_shapes

_BUFFERS = 10**8
"""Most numbers in the buffers of a model: tables of positions that are computed, not stored."""
_TOLD: set[tuple[str, tuple[str, ...], Path]] = set()
"""What has been said about unused parts."""


def pretrained(
    kind: Any,
    folder: Path,
    config: Any,
    *,
    new: Sequence[str] = (),
    new_head: bool = False,
    replaced: Sequence[str] = (),
    unused: Sequence[str] = (),
    only_reads: bool = False,
    as_stored: bool = False,
) -> Any:
    """Load a model of the class `kind` in fp32 and evaluation mode from safetensors.

    - `new`: beginnings of names, without the encoder's prefix, of weights that the folder may lack.
    - `new_head`: the folder may lack weights outside of the encoder; those of a language model are named on stderr.
    - `replaced`: the same, of weights that it may have in any shape: the caller draws them again.
    - `unused`: the same, of weights that it may have although the model has none.
    - `only_reads`: of an encoder-decoder only the encoder is used, so the folder may lack the decoder.
    - `as_stored`: weights that are stored in bf16 stay in bf16.

    Weights of a part that the model does not have, such as a head, are named in one line on stderr. Raises
    `InputError`, naming the weights, if other weights are missing or of another shape, if the embedding block or a
    layer has weights that the configuration does not name, if a weight is NaN or infinite, and if the files cannot be
    read.
    """
    options: Any = {"dtype": precision(folder, as_stored=as_stored), "use_safetensors": True, "local_files_only": True}
    if replaced:
        options["ignore_mismatched_sizes"] = True
    check_shapes(kind, folder, config, replaced)
    with in_one_line(folder), quiet(), plugins_named():  # plugins of a fusion
        model, info = kind.from_pretrained(folder, config=config, output_loading_info=True, **options)
    may_lack = (*new, "decoder.") if only_reads and reads_and_writes(model) else tuple(new)
    if new_head:
        within = f"{model.base_model_prefix}."
        lacking = sorted(key for key in info["missing_keys"] if not key.startswith((within, *replaced)))
        if lacking and not replaced:
            print(f"checkpoint {folder}: its head is new, because it lacks {first_few(lacking)}", file=sys.stderr)
        may_lack += (*lacking, *replaced)
    _check_names(folder, model, info, may_lack, (*replaced, *unused))
    for name, value in model.named_parameters():
        if not torch.isfinite(value).all():
            raise InputError(f"checkpoint {folder}: {name} holds NaN or infinity")
    _forget_folder(model)
    return model


def precision(folder: Path, *, as_stored: bool) -> torch.dtype:
    """Return the precision of a checkpoint's weights in memory: fp32; `as_stored`: bf16 if they are stored in bf16."""
    return torch.bfloat16 if as_stored and kept_in_bf16(folder) else torch.float32


def reads_and_writes(model: Any) -> bool:
    """Return whether a model is an encoder-decoder."""
    within = getattr(model, "base_model", model)
    return all(isinstance(getattr(within, name, None), nn.Module) for name in ("encoder", "decoder"))


def first_few(names: Sequence[str]) -> str:
    """Return at most five names as text, with the number of the others."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def check_shapes(kind: Any, folder: Path, config: Any, replaced: Sequence[str] = ()) -> None:
    """Raise `InputError` for weights of another shape than the configuration says; this takes no memory.

    `replaced`: beginnings of names of weights that may have any shape.
    """
    shapes, build = weight_shapes(folder), getattr(kind, "from_config", None) or kind._from_config
    with in_one_line(folder), quiet(), plugins_named(), torch.device("meta"), no_init_weights():
        model = build(config)
    there = {_plain(name, model): shape for name, shape in shapes.items()}
    other = [
        f"{name} {list(there[plain])} (config.json: {list(value.shape)})"
        for name, value in model.state_dict().items()
        if (plain := _plain(name, model)) in there
        and there[plain] != tuple(value.shape)
        and not plain.startswith(tuple(replaced))
    ]
    if other:
        raise InputError(f"checkpoint {folder}: has another shape of {first_few(other)}")
    if sum(value.numel() for value in model.buffers()) > _BUFFERS:
        raise InputError(f"checkpoint {folder}: config.json: too many positions for tables of positions")


def _check_names(
    folder: Path, model: Any, info: Mapping[str, Any], may_lack: tuple[str, ...], may_have: tuple[str, ...]
) -> None:
    """Check which weights are missing, and which are there that the model lacks; say which parts are not used."""
    if lacking := sorted(key for key in info["missing_keys"] if not _plain(key, model).startswith(may_lack)):
        raise InputError(f"checkpoint {folder}: weights are missing: {first_few(lacking)}")
    parts = {name for name, _ in getattr(model, "base_model", model).named_children()}
    parts |= {name for name, _ in model.named_children()}
    extra = {key: _plain(key, model).split(".") for key in sorted(info["unexpected_keys"])}
    within = [key for key, path in extra.items() if path[0] in parts and not _plain(key, model).startswith(may_have)]
    if within:
        raise InputError(
            f"checkpoint {folder}: has weights that its config.json does not name: {first_few(within)}; "
            "restore the config.json that was saved with them"
        )
    heads, kind = sorted({path[0] for path in extra.values()} - parts), type(model).__name__
    # Once for all snapshots of a run, which lie side by side.
    if heads and (told := (kind, tuple(heads), folder.parent)) not in _TOLD:
        _TOLD.add(told)
        print(f"checkpoint {folder}: {kind} does not use its {', '.join(heads)}", file=sys.stderr)


def _plain(name: str, model: Any) -> str:
    """Return a weight's name without the prefix that a model with a head gives its encoder."""
    return name.removeprefix(f"{model.base_model_prefix}.")


def _forget_folder(model: Any) -> None:
    """Remove the folder's path from the model's configurations, which are saved with other models."""
    model.name_or_path = ""
    for module in model.modules():
        if (config := getattr(module, "config", None)) is not None and hasattr(config, "_name_or_path"):
            config._name_or_path = ""


@contextmanager
def in_one_line(folder: Path) -> Iterator[None]:
    """Turn the errors of files and values that do not fit into `InputError`: each architecture raises its own."""
    try:
        yield
    except (InputError, RunError):
        raise
    except Exception as error:
        raise InputError(f"checkpoint {folder}: {said(error)}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the progress bar and the table of new weights; `_check_names` checks the new weights."""
    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()
