"""Checkpoints that a command is given, from anywhere: found, named, and loaded."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.base.errors import InputError, RunError
from isoscope.data.checkpoints import checkpoint_digest, fetch_checkpoint, loadable_config, weights_digest
from isoscope.data.short_names import RunCheckpoint, checkpoint_names
from isoscope.platform.outputs import CONFIG, read_output


class Checkpoint(NamedTuple):
    """A checkpoint: short name, folder, digest, and the path or hub name as given."""

    name: str
    folder: Path
    digest: str
    given: str = ""

    def check_unchanged(self) -> None:
        """Raise `RunError` if the folder does not hold what the digest names: it changed while it was read."""
        if checkpoint_digest(self.folder) != self.digest:
            raise RunError(f"{self.given or self.folder}: has changed while it was read; run the same command again")

    def model(self, settings: Any, *, twin: int | None = None) -> Any:
        """Return the bare model on its device, or its twin with random weights of this seed."""
        from isoscope.models.encoder import TWIN_SEED, load_encoder, random_encoder

        found = load_encoder(self.folder) if twin is None else random_encoder(self.folder, seed=TWIN_SEED + twin)
        return found.to(settings.device)


def find(given: Sequence[str]) -> list[Checkpoint]:
    """Find checkpoints by folder or by hub name (`name@revision`); each gets a unique short name.

    Checkpoints with equal weights are named on stderr. Raises `InputError` if a checkpoint cannot be found or is given
    twice.
    """
    folders: list[Path] = []
    for name in given:
        if name.startswith((".", "/", "~")) and not Path(name).is_dir():
            raise InputError(f"checkpoint {name}: no such folder")
        if Path(name).is_dir():
            folder = Path(name).resolve()
        else:
            bare, _, revision = name.partition("@")
            try:
                folder = fetch_checkpoint(bare, revision=revision or "main")
            except InputError as error:
                raise InputError(f"{error}; and there is no folder {bare} here") from error
        loadable_config(folder)
        if folder in folders:
            raise InputError(
                f"checkpoints: {given[folders.index(folder)]} and {name} are the same folder; give it once"
            )
        folders.append(folder)
    _name_equal(given, folders)
    plain = [os.path.normpath(name) for name in given]
    plain = [os.path.realpath(name) if name.endswith(".") and Path(name).is_dir() else name for name in plain]
    if len(set(plain)) < len(plain):
        plain = [os.path.realpath(name) for name in given]
    return [
        Checkpoint(name, folder, checkpoint_digest(folder), asked)
        for name, folder, asked in zip(checkpoint_names(plain, [*map(_trained, folders)]), folders, given, strict=True)
    ]


def _name_equal(given: Sequence[str], folders: Sequence[Path]) -> None:
    """Warn of checkpoints with the same weights, such as a copy that was meant to be another step."""
    seen: dict[str, str] = {}
    for name, folder in zip(given, folders, strict=True) if len(given) > 1 else ():
        with suppress(InputError):  # weights that cannot be read are named when they are loaded
            if (other := seen.setdefault(weights_digest(folder), name)) != name:
                print(f"warning: {other} and {name} have equal weights; is one of them a copy?", file=sys.stderr)


def _trained(folder: Path) -> RunCheckpoint | None:
    """Return the cell of a checkpoint in the published output of a run; None for another folder."""
    output = folder.parent.parent
    if folder.parent.name not in ("checkpoints", "snapshots") or not (output / CONFIG).is_file():
        return None
    try:
        run = read_output(output).run
    except InputError:
        return None
    return RunCheckpoint(f"{run.study}/{run.arm}/seed-{run.seed}", folder.name, str(output.parents[3]))
