"""Checkpoints that a command is given, from anywhere: found, named, and loaded.

A checkpoint of a project's run is named by study, arm and seed; others by the parts in which their paths differ.
"""

import os
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from isoscope.base.errors import InputError, RunError
from isoscope.data.checkpoints import (
    checkpoint_digest,
    digest_of,
    fetch_checkpoint,
    loadable_config,
    tokenizer_of,
    weights_digest,
)
from isoscope.data.hub import SENTENCE_FILES, TOKENIZER_FILES
from isoscope.platform.outputs import Trained, read_output
from isoscope.platform.runs.output_files import CONFIG
from isoscope.states.given_vectors import GivenVectors, find_vectors

LONGEST = 36
"""Maximum length of a short name: it must fit into a figure's title or legend."""
GAP = "…"


class RunCheckpoint(NamedTuple):
    """A checkpoint of a project's run: `cell` is `study/arm/seed-0`, `kept` its folder, such as `epoch-3`; `project`:
    folder of the project.
    """

    cell: str
    kept: str
    project: str


def checkpoint_names(paths: Sequence[str], trained: Sequence[RunCheckpoint | None]) -> list[str]:
    """Return a distinct name for each checkpoint, at most `LONGEST` characters.

    A project's checkpoint has the name of its cell, and its epoch or update if several of the cell are given; with
    cells of several projects, the project's name, too. `trained`: None for other checkpoints, which have the names of
    `short_names`.
    """
    own = [one for one in trained if one is not None]
    projects = sorted({one.project for one in own})
    called = dict(zip(projects, short_names(projects), strict=True))
    places = Counter((one.project, one.cell) for one in own)
    others = iter(short_names([path for path, one in zip(paths, trained, strict=True) if one is None]))
    names = [
        next(others)
        if one is None
        else f"{called[one.project]}/" * (len(projects) > 1)
        + one.cell
        + f"/{one.kept}" * (places[one.project, one.cell] > 1)
        for one in trained
    ]
    return _fitted(names if len(set(names)) == len(names) else paths)


def short_names(paths: Sequence[str]) -> list[str]:
    """Return a distinct name for each path: the parts in which the paths differ, at most `LONGEST` characters.

    A path with a unique last part becomes that part. Others lose the parts that all paths with this last part begin
    and end with: `runs/a/seed-0/model` and `runs/b/seed-0/model` become `a` and `b`. The names do not depend on the
    order of the paths.
    """
    parts = [PurePosixPath(path).parts for path in paths]
    names = [str(PurePosixPath(*_differing(own, [one for one in parts if one[-1:] == own[-1:]]))) for own in parts]
    return _fitted(names if len(set(names)) == len(names) else paths)


def _differing(own: tuple[str, ...], alike: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the parts of `own` without those that all paths begin and end with; each path keeps a part."""
    least = max(min(map(len, alike)) - 1, 0)
    first = min(_shared(alike), least)
    last = min(_shared([one[::-1] for one in alike]), least - first)
    return own[first : len(own) - last]


def _shared(paths: list[tuple[str, ...]]) -> int:
    """Return how many parts all paths begin with."""
    return len([*takewhile(lambda parts: len({*parts}) == 1, zip(*paths, strict=False))])


def _fitted(names: Sequence[str]) -> list[str]:
    """Shorten long names in the middle; number all in alphabetical order if shortening makes some equal."""
    short = [_cut(name, LONGEST) for name in names]
    if len(set(short)) == len(short):
        return short
    number = {name: f" ({place})" for place, name in enumerate(sorted(names), start=1)}
    return [_cut(name, LONGEST - len(number[name])) + number[name] for name in names]


def _cut(text: str, letters: int) -> str:
    """Return `text`, with … in the middle if it has more than `letters` characters."""
    if len(text) <= letters:
        return text
    end = (letters - len(GAP)) // 2
    return f"{text[: letters - len(GAP) - end]}{GAP}{text[len(text) - end :]}"


class Checkpoint(NamedTuple):
    """A checkpoint: short name, folder, digest, and the path or hub name as given."""

    name: str
    folder: Path
    digest: str
    given: str = ""

    def check_unchanged(self) -> None:
        """Raise `RunError` if the folder does not hold what the digest names: it changed while it was read."""
        if content_digest(self.folder) != self.digest:
            raise RunError(f"{self.given or self.folder}: has changed while it was read; run the same command again")

    def model(self, settings: Any, *, twin: int | None = None) -> Any:
        """Return the bare model on its device, or its random-weights control of this seed; bf16 weights stay bf16."""
        from isoscope.models.encoder import TWIN_SEED, load_encoder, random_encoder

        if twin is None:
            return load_encoder(self.folder, as_stored=True).to(settings.device)
        return random_encoder(self.folder, seed=TWIN_SEED + twin, as_stored=True).to(settings.device)


def content_digest(folder: Path) -> str:
    """Return the digest of all that is read of a checkpoint; training reads no pooling of sentence-transformers."""
    found, tokenizer = checkpoint_digest(folder, SENTENCE_FILES), tokenizer_of(folder)
    if tokenizer == folder:
        return found
    return sha256(f"{found} {digest_of(tokenizer, TOKENIZER_FILES)}".encode()).hexdigest()


def find(given: Sequence[str]) -> list[Checkpoint]:
    """Find checkpoints, as `find_any`. Raises `InputError` for a file of vectors, too."""
    files, models = kinds(find_any(given))
    if files:
        raise InputError(
            f"checkpoint {files[0].given}: holds vectors, and a model is needed; give a checkpoint's folder"
        )
    return models


def kinds(found: Sequence[Checkpoint | GivenVectors]) -> tuple[list[GivenVectors], list[Checkpoint]]:
    """Return the files of vectors, and the checkpoints."""
    files = [one for one in found if isinstance(one, GivenVectors)]
    return files, [one for one in found if isinstance(one, Checkpoint)]


def find_any(given: Sequence[str], others: Collection[str | None] = ()) -> list[Checkpoint | GivenVectors]:
    """Find checkpoints by folder or by hub name (`name@revision`), and files of vectors; each gets a unique short name.

    `others`: columns of a file of vectors that are no vectors.
    Checkpoints with equal weights are named on stderr. Raises `InputError` if a checkpoint cannot be found or is given
    twice.
    """
    folders: list[Path] = []
    files = {name: one for name in given if (one := find_vectors(name, others))}
    for name in given:
        if name in files or Path(name).is_dir():
            folder = Path(name).resolve()
        elif name.startswith((".", "/", "~")):
            raise InputError(f"checkpoint {name}: no such folder")
        else:
            bare, _, revision = name.partition("@")
            try:
                folder = fetch_checkpoint(bare, revision=revision or "main")
            except InputError as error:
                raise InputError(f"{error}; and there is no folder {bare} here") from error
        if name not in files:
            loadable_config(folder)
        if folder in folders:
            what = "file" if name in files else "folder"
            raise InputError(
                f"checkpoints: {given[folders.index(folder)]} and {name} are the same {what}; give it once"
            )
        folders.append(folder)
    _name_equal({name: folder for name, folder in zip(given, folders, strict=True) if name not in files})
    plain = [str(Path(name).resolve()) if name.endswith(".") else os.path.normpath(name) for name in given]
    return [
        files[asked]._replace(name=name) if asked in files else Checkpoint(name, folder, content_digest(folder), asked)
        for name, folder, asked in zip(checkpoint_names(plain, [*map(_trained, folders)]), folders, given, strict=True)
    ]


def _name_equal(folders: Mapping[str, Path]) -> None:
    """Warn of checkpoints with the same weights, such as a copy that was meant to be another step."""
    seen: dict[str, str] = {}
    for name, folder in folders.items() if len(folders) > 1 else ():
        with suppress(InputError):  # weights that cannot be read are named when they are loaded
            if (other := seen.setdefault(weights_digest(folder), name)) != name:
                print(f"warning: {other} and {name} have equal weights; is one of them a copy?", file=sys.stderr)


def _trained(folder: Path) -> RunCheckpoint | None:
    """Return the cell of a checkpoint in the published output of a run; None for another folder."""
    if (run := run_of(folder)) is None or len(folder.parents) < 6:
        return None
    return RunCheckpoint(f"{run.study}/{run.arm}/seed-{run.seed}", folder.name, str(folder.parents[5]))


def run_of(folder: Path) -> Trained | None:
    """Return the run whose published output has this checkpoint; None for another folder."""
    output = folder.parent.parent
    if folder.parent.name not in ("checkpoints", "snapshots") or not (output / CONFIG).is_file():
        return None
    try:
        return read_output(output).run
    except InputError:
        return None
