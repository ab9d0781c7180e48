"""Fetch a published checkpoint to a local folder, hash it, and check it before loading."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from isoscope.data.files import read_mapping
from isoscope.data.hub import CHECKPOINT_FILES, PART, VARIABLE, no_config, resolve_checkpoint
from isoscope.errors import InputError
from isoscope.sealing import sha256

CONFIG, TOKENIZER_CONFIG, ADAPTER_CONFIG = "config.json", "tokenizer_config.json", "adapter_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_CODE = {"auto_map": "code of its own", "custom_pipelines": "code of its own"}
_OUR_TYPES = "fusion-"
"""Start of the model types that isoscope registers: of these its own classes are loaded, never the folder's code."""
# Settings that make transformers read a file that is not hashed, or need a missing library.
_UNLOADABLE = _CODE | {
    "configuration_files": "another configuration file",
    "transformers_weights": "weights in a file of another name",
    "quantization_config": "quantised weights",
    "compression_config": "quantised weights",
}
_ATTENTION = ("attn_implementation", "_attn_implementation")
_LABELS = ("id2label", "label2id")
_BUILT_IN = (None, "eager", "sdpa")


def fetch_checkpoint(name: str, *, revision: str) -> Path:
    """Return the folder of checkpoint `name`: below ISOSCOPE_HUB, or fetched from the hub at `revision`.

    Fetches only safetensors weights, configuration and tokenizer files. Raises `InputError` if neither place has it, or
    if it needs its own Python code, which is never run.
    """
    folder = resolve_checkpoint(name) or _download(name, revision)
    for file in (folder / CONFIG, folder / TOKENIZER_CONFIG):
        if file.exists():
            _refuse(file, read_mapping(file), _CODE)
    return folder


def checkpoint_digest(folder: Path) -> str:
    """Return the sha256 of names and contents of a checkpoint's weights (safetensors), configuration and tokenizer.

    Raises `InputError` if the folder has no config.json, or if its index names weights that would not be hashed.
    """
    files = sorted({file for pattern in CHECKPOINT_FILES for file in folder.glob(pattern) if file.is_file()})
    if folder / CONFIG not in files:
        raise no_config(folder)
    _check_index(folder)
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name} {sha256(path)}\n".encode())
    return digest.hexdigest()


def loadable_config(folder: Path) -> dict[str, Any]:
    """Return a checkpoint's configuration; check that all weights are plain tensors in hashed files of its folder.

    Raises `InputError` for custom code, adapters, quantised weights, attention kernels, and files outside the folder.
    """
    file = folder / CONFIG
    if not file.is_file():
        raise no_config(folder)
    settings = read_mapping(file)
    _refuse(file, settings, _UNLOADABLE)
    for part in _parts(settings):
        for key in _ATTENTION:
            asked = part.get(key)
            if not all(one in _BUILT_IN for one in (asked.values() if isinstance(asked, dict) else [asked])):
                raise InputError(
                    f"{file}: {key}: {asked!r} is an external kernel, which is not fetched; remove the key"
                )
    if (folder / ADAPTER_CONFIG).exists():
        raise InputError(
            f"{folder / ADAPTER_CONFIG}: adapters are not supported; merge it into the weights "
            "(merge_and_unload), or remove the file"
        )
    _check_index(folder)
    return settings


def _parts(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a configuration and all mappings in it, such as those of an encoder-decoder."""
    todo: list[Any] = [settings]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            yield one
            todo += [value for key, value in one.items() if key not in _LABELS]
        elif isinstance(one, list):
            todo += one


def _refuse(file: Path, settings: dict[str, Any], keys: dict[str, str]) -> None:
    exported = str(settings.get("model_type", "")).startswith(_OUR_TYPES)
    for part in _parts(settings):
        for key, what in keys.items():
            if part.get(key) and not (exported and key == "auto_map" and part is settings):
                raise InputError(f"{file}: needs {what} ({key}), which is not supported; use another checkpoint")


def _check_index(folder: Path) -> None:
    """Raise `InputError` if the index is used and names weights in files that the digest does not cover."""
    file = folder / INDEX
    if (folder / WEIGHTS).is_file() or not file.exists():
        return
    found = read_mapping(file)
    shards = found.get("weight_map")
    if not isinstance(shards, dict) or not shards or not isinstance(found.get("metadata"), dict):
        raise InputError(f"{file}: expected metadata and a weight_map from parameters to files; save the model again")
    for parameter, name in shards.items():
        plain = isinstance(name, str) and PART.fullmatch(name) and name.endswith(".safetensors")
        if not plain or not (folder / name).is_file():
            raise InputError(
                f"{file}: weight_map: {parameter}: {name!r} is not a *.safetensors file in this folder; put it there, "
                "or save the model again"
            )


def _download(name: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(CHECKPOINT_FILES)))
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"checkpoint {name!r} at revision {revision!r}: cannot be fetched from the hub ({reason}); "
            f"set {VARIABLE} to a folder that holds {name}/"
        ) from error
