"""A prepared task: read by every command that needs its data, and only if its settings are those of now."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoscope import paths, plugins
from isoscope.config.data import Data, Local
from isoscope.config.load import Configuration
from isoscope.config.tree import Tree, flatten
from isoscope.errors import InputError
from isoscope.runs.provenance import dvc_md5
from isoscope.runs.secrets import scrub_tree

MANIFEST, SETTINGS = "manifest.json", "settings.json"
_MISSING = "missing"


def settings(data: Data) -> Tree:
    """All that decides what `isoscope prepare` writes: the section `data`, and the code of a data set of one's own."""
    own = plugins.DATASETS.get(data.source.kind)
    code = {own.file.name: plugins.digest(own.file)} if own else {}
    return {"data": scrub_tree(data.model_dump(mode="json")), "plugins": code}


def content_md5(folder: Path) -> str:
    """The data's hash in a run's digest: settings that lead to the same bytes are the same data."""
    return dvc_md5(folder, leave_out={SETTINGS})


def read_manifest(project: paths.Project, task: str) -> dict[str, Any]:
    """A prepared task's manifest. Raises `InputError` where the task is not prepared."""
    folder = paths.processed(task)
    if not (project.folder / folder / MANIFEST).is_file():
        raise InputError(f"{folder}: task {task!r} is not prepared; run: isoscope prepare {task}")
    return _read(project.folder, folder / MANIFEST, task)


def source(project: paths.Project, task: str, md5: str | None) -> Tree | None:
    """Where the data with DVC's hash `md5` came from: the section `data.source`; None where they are not here."""
    folder = project.folder / paths.processed(task)
    if not (folder / SETTINGS).is_file() or dvc_md5(folder) != md5:
        return None
    return dict(_read(project.folder, paths.processed(task) / SETTINGS, task)["data"]["source"])


def overridden(configuration: Configuration, task: str) -> list[str]:
    """Names below `data` that `-S` changes for a task."""
    now = flatten(settings(configuration.data(task)))
    try:
        plain = Configuration(configuration.folder, (), configuration.extra_plugins)
        without = flatten(settings(plain.data(task)))
    except InputError:  # it is no task without -S
        without = {}
    return [name for name in now | without if now.get(name, _MISSING) != without.get(name, _MISSING)]


def check_prepared(project: paths.Project, configuration: Configuration, task: str) -> None:
    """Refuse data that were prepared from something else than this command's configuration describes.

    A task that is not prepared passes: what reads it says so. Raises `InputError` naming both and what to do.
    """
    folder = paths.processed(task)
    if not (project.folder / folder / MANIFEST).is_file():
        return
    again = f"run: isoscope prepare {task}"
    if not (project.folder / folder / SETTINGS).is_file():
        raise InputError(
            f"{folder}: no {SETTINGS}, which says what it was prepared from (an older isoscope wrote none); {again} "
            "(equal data keep the digests of their runs)"
        )
    data, origin = configuration.data_with_origin(task)
    then, now = (flatten(tree) for tree in (_read(project.folder, folder / SETTINGS, task), settings(data)))
    changed = [name for name in now | then if now.get(name, _MISSING) != then.get(name, _MISSING)]
    if changed:
        name = min(changed, key=lambda one: not one.endswith(".kind"))
        if name.startswith("plugins."):
            raise InputError(f"{folder}: {name.removeprefix('plugins.')} has changed since it prepared this; {again}")
        if given := [one for one in overridden(configuration, task) if one in changed]:
            again = (
                f"-S {given[0]} cannot change prepared data: run isoscope repro -S …, or describe another task in "
                f"{paths.VARIANTS}/task/"
            )
        old, new = then.get(name, _MISSING), now.get(name, _MISSING)
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise InputError(f"{folder}: prepared with {name} {old!r}, but {origin(name)} says {new!r}{more}; {again}")
    if isinstance(data.source, Local):
        _check_files(project.folder, data.source.path, read_manifest(project, task), f"{folder}: {again}")


def _check_files(root: Path, source: str, manifest: Mapping[str, Any], cure: str) -> None:
    """The user's own files are still those that were prepared; one that is gone proves nothing."""
    for name, sha256 in manifest.get("facts", {}).get("inputs", {}).items():
        path = Path(source) if (root / source).is_file() else Path(source) / name
        if not (root / path).is_file():
            continue
        with (root / path).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                raise InputError(f"{path}: has changed since it was prepared into {cure}")


def check_trained_on(inputs: Mapping[str, str], project: paths.Project, task: str, what: Path, command: str) -> None:
    """Refuse to look at a run (`what`, `inputs` of its config.yaml) with other data than it was trained on."""
    folder = paths.processed(task)
    place = project.folder / folder
    as_found = (dvc_md5(place), content_md5(place))  # a run of before SETTINGS has the latter
    if inputs.get(folder.as_posix()) not in as_found:
        raise InputError(f"{what}: trained on other data than {folder} holds now; run: {command}")


def _read(root: Path, file: Path, task: str) -> dict[str, Any]:
    try:
        found = json.loads((root / file).read_text("utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{file}: damaged; run: isoscope prepare {task}")
    return found
