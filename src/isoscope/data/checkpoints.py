"""Fetch a published checkpoint to a local folder, hash it, and check it before loading."""

import hashlib
import math
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, deserialize, safe_open

from isoscope.base.atomic_files import sha256
from isoscope.base.errors import InputError, brief
from isoscope.data.files import read_mapping
from isoscope.data.hub import (
    CHECKPOINT_FILES,
    PART,
    SENTENCE_FILES,
    TOKENIZER_FILES,
    VARIABLE,
    no_config,
    resolve_checkpoint,
)

MODEL_CONFIG, TOKENIZER_CONFIG, ADAPTER_CONFIG = "config.json", "tokenizer_config.json", "adapter_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
NO_LIMIT = 10**9
"""A larger number of tokens is no limit."""
_OUR_TYPES = "fusion-"
"""Start of the model types that isoscope registers: of these its own classes are loaded, never the folder's code."""
# Settings that make transformers run code, read a file that is not hashed, or need a missing library.
_UNLOADABLE = {
    "auto_map": "code of its own",
    "custom_pipelines": "code of its own",
    "configuration_files": "another configuration file",
    "transformers_weights": "weights in a file of another name",
    "quantization_config": "quantised weights",
    "compression_config": "quantised weights",
}
_REPEATED = re.compile(r"^(?!max_).*(layers?|blocks|experts)$")
"""Ends of the names of settings that say how often a part is repeated; each part has a tensor of its own."""
_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "num_labels")
_POSITIONS = 2**24
"""Most positions; models with computed positions have up to ten million."""
_ATTENTION = ("attn_implementation", "_attn_implementation")
_LABELS = ("id2label", "label2id")
_BUILT_IN = (None, "eager", "sdpa")


def fetch_checkpoint(name: str, *, revision: str) -> Path:
    """Return the folder of checkpoint `name`: below ISOSCOPE_HUB, or fetched from the hub at `revision`.

    Fetches only safetensors weights, configuration and tokenizer files. Raises `InputError` if neither place has it.
    """
    return resolve_checkpoint(name) or _download(name, revision)


def checkpoint_digest(folder: Path, further: Sequence[str] = ()) -> str:
    """Return the sha256 of names and contents of a checkpoint's weights (safetensors), configuration and tokenizer.

    `further`: patterns of other files. Raises `InputError` if the folder has no config.json, or if its index names
    weights that would not be hashed.
    """
    if not (folder / MODEL_CONFIG).is_file():
        raise no_config(folder)
    _check_index(folder)
    return digest_of(folder, (*CHECKPOINT_FILES, *further))


def digest_of(folder: Path, patterns: Sequence[str]) -> str:
    """Return the sha256 of names and contents of the files of a folder that fit one of these patterns."""
    digest = hashlib.sha256()
    for path in sorted({file for pattern in patterns for file in folder.glob(pattern) if file.is_file()}):
        digest.update(f"{path.relative_to(folder).as_posix()} {sha256(path)}\n".encode())
    return digest.hexdigest()


def tokenizer_of(folder: Path) -> Path:
    """Return the folder of a checkpoint's tokenizer: its own, or `first_kept` of a run's snapshot without one."""
    above = folder.absolute().parent
    if above.name != "snapshots" or any(any(folder.glob(pattern)) for pattern in TOKENIZER_FILES):
        return folder
    return first_kept(above.parent) or folder


def stated_length(folder: Path) -> int | None:
    """Return the most tokens that a checkpoint's tokenizer states; None without a limit, for which 1e30 may stand.

    Raises `InputError` for what is no number above 2.
    """
    file = tokenizer_of(folder) / TOKENIZER_CONFIG
    most = read_mapping(file).get("model_max_length") if file.is_file() else None
    if most is None or (isinstance(most, int | float) and most > NO_LIMIT):
        return None
    if not isinstance(most, int) or most < 3:
        raise InputError(f"{file}: model_max_length: expected a number above 2, got {brief(most)}")
    return most


def first_kept(output: Path) -> Path | None:
    """Return the first checkpoint that the output of a run keeps, with its tokenizer; None if there is none."""
    return min((output / "checkpoints").glob("epoch-*"), default=None)


def loadable_config(folder: Path) -> dict[str, Any]:
    """Return a checkpoint's configuration; check that all weights are plain tensors in hashed files of its folder.

    Raises `InputError` for custom code, adapters, quantised weights, attention kernels, and files outside the folder.
    """
    file = folder / MODEL_CONFIG
    if not file.is_file():
        raise no_config(folder)
    settings = read_mapping(file)
    _refuse(file, settings)
    if (folder / TOKENIZER_CONFIG).exists():
        _refuse(folder / TOKENIZER_CONFIG, read_mapping(folder / TOKENIZER_CONFIG))
    for part in _parts(settings):
        for key, value in part.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"{file}: {key}: {value} is not a number that a model can use; correct it")
        names = part.get("architectures")
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise InputError(f"{file}: architectures: expected a list of class names, got {brief(names)}")
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


def check_sizes(folder: Path, settings: dict[str, Any]) -> None:
    """Check that the sizes of a configuration are positive and not far above those of the folder's weights.

    Building a model of ten million layers takes minutes and all memory. Raises `InputError` for such a number.
    """
    if not (folder / WEIGHTS).is_file() and not (folder / INDEX).is_file():
        return  # loading says so, if the configuration is of a text transformer at all
    shapes = weight_shapes(folder)
    numbers = sum(math.prod(shape) for shape in shapes.values())
    sizes = dict.fromkeys(_SIZES, numbers) | {"max_position_embeddings": max(numbers, _POSITIONS)}
    for part in _parts(settings):
        for key, value in part.items():
            most = len(shapes) if _REPEATED.search(key) else sizes.get(key)
            if most is None or not isinstance(value, int) or (0 < value <= most) or (value <= 0 and key not in sizes):
                continue
            held = f"expected 1 to {most:,}: its weights hold {len(shapes)} tensors of {numbers:,} numbers"
            raise InputError(f"checkpoint {folder}: config.json: {key}: {value}, {held}; correct it")


def weights_digest(folder: Path) -> str:
    """Return the sha256 of all tensors of a checkpoint, whatever metadata they are saved with."""
    digest = hashlib.sha256()
    for file in weight_files(folder):
        with _readable(file):
            found = sorted(deserialize(file.read_bytes()))
        for name, value in found:
            digest.update(f"{name} {value['dtype']} {value['shape']}\n".encode())
            digest.update(value["data"])
    return digest.hexdigest()


def weight_files(folder: Path) -> list[Path]:
    """Return the files that hold a checkpoint's weights. Raises `InputError` if it has none in safetensors."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if not (folder / INDEX).is_file():
        raise InputError(f"checkpoint {folder}: {_no_weights(folder)}")
    return [folder / name for name in sorted({*read_mapping(folder / INDEX)["weight_map"].values()})]


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of a checkpoint, by name, without reading the tensors.

    Raises `InputError` if the folder has no safetensors weights, or if they cannot be read.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for file in weight_files(folder):
        with _readable(file), safe_open(file, "numpy") as tensors:
            shapes |= {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    return shapes


def kept_in_bf16(folder: Path) -> bool:
    """Return whether all floating-point weights of a checkpoint are stored in bf16, and so may be kept in it."""
    kinds: set[str] = set()
    for file in weight_files(folder):
        with _readable(file), safe_open(file, "numpy") as tensors:
            kinds |= {tensors.get_slice(name).get_dtype() for name in tensors.keys()}  # noqa: SIM118
    return {kind for kind in kinds if "F" in kind} == {"BF16"}


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file}: not readable safetensors ({' '.join(str(error).split())[:100]})") from None


def _no_weights(folder: Path) -> str:
    if any(folder.glob("pytorch_model*.bin")):
        command = f"isoscope convert {shlex.quote(str(folder))} OUT"
        return f"its weights are pickles (pytorch_model.bin), which are not read; convert them: {command}"
    return f"no weights: expected {WEIGHTS}, or {INDEX} and its files"


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


def _refuse(file: Path, settings: dict[str, Any]) -> None:
    exported = str(settings.get("model_type", "")).startswith(_OUR_TYPES)
    for part in _parts(settings):
        for key, what in _UNLOADABLE.items():
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
        return Path(snapshot_download(name, revision=revision, allow_patterns=[*CHECKPOINT_FILES, *SENTENCE_FILES]))
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"checkpoint {name!r} at revision {revision!r}: cannot be fetched from the hub ({reason}); "
            f"set {VARIABLE} to a folder that holds {name}/"
        ) from error
