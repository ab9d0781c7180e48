"""Find data sets and checkpoints by hub name: first in the folders of ISOSCOPE_HUB, then on the Hugging Face hub."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.base.errors import InputError
from isoscope.data.files import Raw, chosen, datasets_library, read_splits, splits_in

VARIABLE = "ISOSCOPE_HUB"
PART = re.compile(r"(?!\.\.?$)[\w.+-]+", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "*.model",
    "*.spm",
)
MODULES = "modules.json"
SENTENCE_FILES = (
    *(MODULES, "config_sentence_transformers.json", "sentence_*_config.json"),
    *("[0-9]_*/config.json", "[0-9]_*/*.safetensors"),
)
"""How sentence-transformers makes a sentence vector: modules, prompts, pooling, further layers."""
CHECKPOINT_FILES = ("config.json", "*.safetensors", "*.safetensors.index.json", *TOKENIZER_FILES)


class Found(NamedTuple):
    """A data set: its splits, its name with its configuration, and the commit that was read; None: a folder."""

    raw: dict[str, Raw]
    name: str
    commit: str | None


def find_splits(
    *,
    name: str,
    config: str | None,
    revision: str,
    columns: Mapping[str, str],
    splits: Mapping[str, str | None],
) -> Found:
    """Read the data set `name` (`<name>` or `<org>/<name>`) from a local folder or from the hub at `revision`.

    A folder `<name>/` or `<name>/<config>/` below a folder of ISOSCOPE_HUB comes first. From the hub, no remote code
    runs. `columns`, `splits`: as in `files.read_splits`. Raises `InputError` if neither place has it.
    """
    _check_name(name, config)
    source = name if config is None else f"{name}/{config}"
    folder = _local(source)
    if folder is not None:
        return Found(read_splits(folder, columns=columns, splits=splits), source, None)
    there, commit = _download(name, config, revision)
    return Found(chosen(there, f"data set {name}", splits), source, commit)


def split_names(*, name: str, config: str | None, revision: str) -> list[str]:
    """Return the splits of a data set, in a local folder or on the hub, as `find_splits` finds it."""
    _check_name(name, config)
    folder = _local(name if config is None else f"{name}/{config}")
    return [*_download(name, config, revision)[0]] if folder is None else splits_in(folder)


def resolve_checkpoint(name: str) -> Path | None:
    """Return the folder `<org>/<name>/` below a folder of ISOSCOPE_HUB; None if no folder has it.

    Raises `InputError` for a name that could lead outside these folders, and for a folder without config.json.
    """
    _check_name(name)
    folder = _local(name)
    if folder is not None and not (folder / "config.json").is_file():
        raise no_config(folder)
    return folder


def no_config(folder: Path) -> InputError:
    """Return the error for a folder without config.json: it names the checkpoint below it, or what it holds."""
    below = sorted(place for depth in ("*", "*/*") for place in folder.glob(f"{depth}/config.json"))
    if kept := sorted(folder.glob("checkpoints/*")):
        give = f"this is the output of a run; give a checkpoint in it, such as {kept[-1]}"
    elif below:
        give = f"give the folder of a checkpoint in it, such as {below[0].parent}"
    elif folder.is_dir():
        held = sorted(place.name for place in folder.iterdir())
        there = ", ".join(held[:5]) + " …" * (len(held) > 5) or "nothing"
        give = f"give the folder of a Hugging Face checkpoint, which has it beside model.safetensors; here is {there}"
    else:
        give = "there is no such folder"
    return InputError(f"checkpoint {folder}: no config.json; {give}")


def folders() -> list[Path]:
    """Return the folders of ISOSCOPE_HUB, in order. Raises `InputError` for a missing folder."""
    found = [Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    for folder in found:
        if not folder.is_dir():
            raise InputError(f"{VARIABLE}: {folder} is not a folder")
    return found


def find_file(name: str, place: Path, *, key: str, split: str = "test") -> Path:
    """Return the file `name` below the folder `place`, or `<name>/<split>.parquet` below ISOSCOPE_HUB.

    Raises `InputError`, which begins with `key`, if neither exists.
    """
    places = [place / name, *(folder / name / f"{split}.parquet" for folder in folders())]
    if found := next((file for file in places if file.is_file()), None):
        return found
    raise InputError(f"{key}: {name!r}: no such file, and no <name>/{split}.parquet below {VARIABLE}")


def _local(name: str) -> Path | None:
    return next((folder / name for folder in folders() if (folder / name).is_dir()), None)


def _check_name(name: str, config: str | None = None) -> None:
    parts = [*name.split("/"), *([] if config is None else [config])]
    if name.count("/") > 1 or not all(PART.fullmatch(part) for part in parts):
        given = name if config is None else f"{name} with configuration {config}"
        raise InputError(f"hub name {given!r}: expected <name> or <org>/<name> of letters, digits, '_', '-' and '.'")


def _download(name: str, config: str | None, revision: str) -> tuple[Mapping[str, Any], str]:
    """Return the splits of a data set of the hub (or its local cache), and their commit."""
    if Path(name).exists():  # `datasets` would read it instead of the hub and ignore the revision
        raise InputError(
            f"{name}: a folder in the working directory hides the hub's data set; use a local source for it"
        )
    library = datasets_library()
    try:
        builder = library.load_dataset_builder(name, config, revision=revision)
        builder.download_and_prepare()
        there = builder.as_dataset()
    except Exception as error:  # connection, HTTP, repository and format errors share no base class
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            f"data set {name} at revision {revision}: not below {VARIABLE} ({os.environ.get(VARIABLE) or 'not set'}), "
            f"and the hub gave {type(error).__name__}: {reason}; "
            f"set {VARIABLE} to a folder that holds {name if config is None else name + '/' + config}/"
        ) from None
    # Without a connection, the library returns any cached revision.
    if COMMIT.fullmatch(revision) and builder.hash != revision:
        raise InputError(f"data set {name}: asked for revision {revision}, but the cache here holds {builder.hash}")
    return there, builder.hash
