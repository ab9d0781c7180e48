"""A published checkpoint as a folder on this machine: fetched, hashed, and checked before it is loaded."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from isoscope.data.hub import CHECKPOINT_FILES, PART, VARIABLE, resolve_checkpoint
from isoscope.data.json_files import read_mapping
from isoscope.errors import InputError

CONFIG, TOKENIZER_CONFIG, ADAPTER_CONFIG = "config.json", "tokenizer_config.json", "adapter_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_CODE = {"auto_map": "code of its own", "custom_pipelines": "code of its own"}
# What makes transformers read a file that is not hashed, or need a library that is not there.
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
    """The folder of checkpoint `name`: below ISOSCOPE_HUB, or fetched from the hub at `revision`.

    Only weights in safetensors, configuration and tokenizer files are fetched. Raises `InputError` where neither has
    it, and where it asks for Python code of its own, which is never run here.
    """
    found = resolve_checkpoint(name)
    folder = Path(found) if found != name else _download(name, revision)
    for file in (folder / CONFIG, folder / TOKENIZER_CONFIG):
        if file.exists():
            _refuse(file, read_mapping(file), _CODE)
    return folder


def checkpoint_digest(folder: Path) -> str:
    """sha256 over names and contents of a checkpoint's weights (safetensors), configuration and tokenizer files.

    Raises `InputError` when the folder has no config.json, or its index names weights that would not be hashed.
    """
    files = sorted({file for pattern in CHECKPOINT_FILES for file in folder.glob(pattern) if file.is_file()})
    if folder / CONFIG not in files:
        raise InputError(f"{folder}: not a checkpoint, {CONFIG} is missing")
    _check_index(folder)
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def loadable_config(folder: Path) -> dict[str, Any]:
    """The configuration of a checkpoint, all of whose weights are plain tensors in hashed files of its folder.

    Raises `InputError` for code, adapters, quantised weights, attention kernels and files elsewhere.
    """
    file = folder / CONFIG
    if not file.is_file():
        raise InputError(f"checkpoint {folder}: no {CONFIG} in it; give a Hugging Face checkpoint's folder")
    settings = read_mapping(file)
    _refuse(file, settings, _UNLOADABLE)
    for part in _parts(settings):
        for key in _ATTENTION:
            asked = part.get(key)
            if not all(one in _BUILT_IN for one in (asked.values() if isinstance(asked, dict) else [asked])):
                raise InputError(
                    f"{file}: {key}: {asked!r} is a kernel from elsewhere, and none is fetched; remove the key"
                )
    if (folder / ADAPTER_CONFIG).exists():
        raise InputError(
            f"{folder / ADAPTER_CONFIG}: an adapter, which is not loaded; merge it into the weights "
            "(merge_and_unload), or remove the file"
        )
    _check_index(folder)
    return settings


def _parts(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A configuration and all mappings inside it, such as an encoder-decoder's two."""
    todo: list[Any] = [settings]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            yield one
            todo += [value for key, value in one.items() if key not in _LABELS]
        elif isinstance(one, list):
            todo += one


def _refuse(file: Path, settings: dict[str, Any], keys: dict[str, str]) -> None:
    for part in _parts(settings):
        for key, what in keys.items():
            if part.get(key):
                raise InputError(f"{file}: asks for {what} ({key}), which is not loaded; take another checkpoint")


def _check_index(folder: Path) -> None:
    """Raise `InputError` unless all weights that the index names, if it is used, are files that the digest covers."""
    file = folder / INDEX
    if (folder / WEIGHTS).is_file() or not file.exists():
        return
    found = read_mapping(file)
    shards = found.get("weight_map")
    if not isinstance(shards, dict) or not shards or not isinstance(found.get("metadata"), dict):
        raise InputError(f"{file}: expected metadata and a weight_map of parameters to files; save the model again")
    for parameter, name in shards.items():
        plain = isinstance(name, str) and PART.fullmatch(name) and name.endswith(".safetensors")
        if not plain or not (folder / name).is_file():
            raise InputError(
                f"{file}: weight_map: {parameter}: {name!r} is no *.safetensors file in this folder; put it there, "
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
            f"checkpoint {name!r} at revision {revision!r}: the hub gave no answer ({reason}); "
            f"set {VARIABLE} to a folder that holds {name}/"
        ) from error
