"""What a model is trained with. Imports no heavy library, so that a finished run is found without one."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.data.checkpoints import checkpoint_digest, fetch_checkpoint, loadable_config
from isoscope.data.corpus import PAIR
from isoscope.data.scripts import words_of_bleu


class Job(NamedTuple):
    """What a model is trained with: settings, data, and the checkpoints that it starts from."""

    parts: Any
    """Settings by section: `model`, `objective`, `penalty`, `observers`, `training`."""
    plugins: bool
    """Whether a plugin is among them."""
    seed: int
    data: Path
    manifest: Mapping[str, Any]
    tokenizer: Path
    checkpoint: Path | None
    """A published checkpoint to start from."""
    starts: Callable[[], Mapping[str, Path]]
    """The selected checkpoints of the runs to start from, by their part of the model: `model`, or `encoder` and
    `decoder`. Each call finds them intact, or raises `InputError`."""
    unchanged: Callable[[], object]
    """Raises if the data have changed since they were hashed; called when all of them have been read."""
    metrics: Sequence[str] = ()
    """Further metrics of `evaluate`: names on the hub, or absolute paths of modules."""


def start(encoder: Any, data: Path) -> tuple[Path, Path | None]:
    """Return the folder of the tokenizer, and of the published checkpoint that training starts from, if there is one.

    `encoder`: the section `model.encoder`; `data`: the prepared task. Raises `InputError` if a checkpoint is missing.
    """
    named = encoder if encoder.kind == "pretrained" else getattr(encoder, "tokenizer", None)
    if named is None or named.kind == "task":
        return data / "tokenizer", None
    folder = fetch_checkpoint(named.checkpoint, revision=named.revision)
    if named is not encoder:
        return folder, None
    loadable_config(folder)
    return folder, folder


def published(tokenizer: Path, data: Path) -> dict[str, str]:
    """Return the hash of a published checkpoint whose tokenizer is used, as `checkpoint`; none of the task's own."""
    return {} if tokenizer.parent == data else {"checkpoint": checkpoint_digest(tokenizer)}


def decided(objective: Any, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a section `objective` that the task decides: the words of BLEU, of its target language."""
    if objective.kind != "translation" or objective.tokenize is not None:
        return {}
    return {"tokenize": words_of_bleu(manifest.get("languages", {}).get(PAIR[1]))}
