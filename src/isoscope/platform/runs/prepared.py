"""Prepared tasks: check that their data match the current configuration, and read their manifests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoscope import plugins
from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.platform.config.data import Data, JointTokenizer, Local
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import Tree, flatten
from isoscope.platform.runs.provenance import dvc_md5, file_sha256
from isoscope.platform.runs.secrets import scrub_tree

MANIFEST, SETTINGS, FILES = "manifest.json", "settings.json", "files"
VOCABULARY = "vocabulary"
"""Fact of a manifest: the hashes of the local files that each source of a joint vocabulary consists of."""
_MISSING = "missing"


def settings(data: Data) -> Tree:
    """Return what determines the output of `isoscope prepare`: section `data` and code of a data-set plugin."""
    own = plugins.DATASETS.get(data.source.kind)
    code = {own.file.name: plugins.digest(own.file)} if own else {}
    return {"data": scrub_tree(data.model_dump(mode="json")), "plugins": code}


def seal(folder: Path, data: Data) -> str:
    """Return the text of `SETTINGS`: `settings`, and the sha256 of every other file of a prepared task's `folder`."""
    return json.dumps(settings(data) | {FILES: _hashes(folder)}, indent=1, sort_keys=True) + "\n"


def _hashes(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / SETTINGS)
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in files}


def check_whole(project: paths.Project, task: str) -> None:
    """Check every file of a prepared task. Raises `InputError` with the file that has changed, and the remedy."""
    folder, again = paths.processed(task), f"run: isoscope prepare {task}"
    known = _settings(project, task).get(FILES)
    if not isinstance(known, dict):
        raise InputError(f"{folder}: {SETTINGS} has no hashes of its files (prepared by an older isoscope); {again}")
    found = _hashes(project.folder / folder)
    for name in sorted(known.keys() | found):
        if name not in found:
            raise InputError(f"{folder}: {name} is missing; {again}")
        if name not in known:
            raise InputError(f"{folder}: {name} was not written by isoscope prepare; remove it, or {again}")
        if found[name] != known[name]:
            raise InputError(f"{folder}: {name} has changed since it was prepared; {again}")


def content_md5(folder: Path) -> str:
    """Return the hash of the data for run digests: different settings with equal bytes are the same data."""
    return dvc_md5(folder, leave_out={SETTINGS})


def read_manifest(project: paths.Project, task: str) -> dict[str, Any]:
    """Return a prepared task's manifest. Raises `InputError` if the task is not prepared, or a file is damaged."""
    folder = paths.processed(task)
    if not (project.folder / folder / MANIFEST).is_file():
        raise InputError(f"{folder}: task {task!r} is not prepared; run: isoscope prepare {task}")
    check_whole(project, task)
    return _read(project.folder, folder / MANIFEST, task)


def source(project: paths.Project, task: str, md5: str | None) -> Tree | None:
    """Return the section `data.source` of the prepared data with DVC hash `md5`; None if they are not here."""
    folder = project.folder / paths.processed(task)
    if not (folder / SETTINGS).is_file() or dvc_md5(folder) != md5:
        return None
    return dict(_settings(project, task)["data"]["source"])


def overridden(configuration: Configuration, task: str) -> list[str]:
    """Return the names below `data` that `-S` changes for a task."""
    now = flatten(settings(configuration.data(task)))
    try:
        plain = Configuration(configuration.folder, (), configuration.extra_plugins)
        without = flatten(settings(plain.data(task)))
    except InputError:  # the task exists only with -S
        without = {}
    return [name for name in now | without if now.get(name, _MISSING) != without.get(name, _MISSING)]


def check_prepared(project: paths.Project, configuration: Configuration, task: str) -> None:
    """Check that the prepared data match this command's configuration, and that their files are intact.

    A task that is not prepared passes; its reader reports that. Raises `InputError` with both values and the remedy.
    """
    folder = paths.processed(task)
    if not (project.folder / folder / MANIFEST).is_file():
        return
    again = f"run: isoscope prepare {task}"
    data, origin = configuration.data_with_origin(task)
    stored = {name: value for name, value in _settings(project, task).items() if name != FILES}
    then, now = flatten(stored), flatten(settings(data))
    changed = [name for name in now | then if now.get(name, _MISSING) != then.get(name, _MISSING)]
    if changed:
        name = min(changed, key=lambda one: not one.endswith(".kind"))
        if name.startswith("plugins."):
            raise InputError(
                f"{folder}: {name.removeprefix('plugins.')} has changed since the task was prepared; {again}"
            )
        if given := [one for one in overridden(configuration, task) if one in changed]:
            again = (
                f"-S {given[0]} cannot change prepared data: run isoscope repro -S …, or define another task in "
                f"{paths.VARIANTS}/task/"
            )
        old, new = then.get(name, _MISSING), now.get(name, _MISSING)
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise InputError(f"{folder}: prepared with {name} {old!r}, but {origin(name)} says {new!r}{more}; {again}")
    facts = read_manifest(project, task).get("facts", {})
    read = [(data.source, facts.get("inputs", {}))]
    if isinstance(data.tokenizer, JointTokenizer):
        known = facts.get(VOCABULARY, [])
        if len(known) != len(data.tokenizer.sources):
            raise InputError(f"{folder}: its manifest has {len(known)} of the tokenizer's sources; {again}")
        read += zip(data.tokenizer.sources, known, strict=True)
    for source, inputs in read:
        if isinstance(source, Local):
            _check_files(project.folder, source.path, inputs, f"{folder}: {again}")


def _check_files(root: Path, source: str, inputs: Mapping[str, str], cure: str) -> None:
    """Check that the user's files have not changed since preparation; a missing file passes."""
    for name, known in inputs.items():
        path = Path(source) if (root / source).is_file() else Path(source) / name
        if (root / path).is_file() and file_sha256(root / path) != known:
            raise InputError(f"{path}: has changed since it was prepared to {cure}")


def check_trained_on(inputs: Mapping[str, str], project: paths.Project, task: str, what: Path, command: str) -> None:
    """Check that a run (`what`, `inputs` of its config.yaml) was trained on the data that are prepared now."""
    folder = paths.processed(task)
    place = project.folder / folder
    as_found = (dvc_md5(place), content_md5(place))  # runs from before SETTINGS have the latter
    if inputs.get(folder.as_posix()) not in as_found:
        raise InputError(f"{what}: trained on other data than {folder} holds now; run: {command}")


def _settings(project: paths.Project, task: str) -> dict[str, Any]:
    folder = paths.processed(task)
    if not (project.folder / folder / SETTINGS).is_file():
        raise InputError(
            f"{folder}: no {SETTINGS}, so its settings are unknown (prepared by an older isoscope); "
            f"run: isoscope prepare {task} (runs keep their digests if the data are equal)"
        )
    return _read(project.folder, folder / SETTINGS, task)


def _read(root: Path, file: Path, task: str) -> dict[str, Any]:
    try:
        found = json.loads((root / file).read_text("utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{file}: damaged; run: isoscope prepare {task}")
    return found
