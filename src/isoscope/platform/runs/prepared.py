"""Prepared tasks: check that their data match the current configuration, and read their manifests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoscope import plugins
from isoscope.base import paths
from isoscope.base.atomic_files import changed
from isoscope.base.errors import InputError
from isoscope.platform.config.data import Data, JointTokenizer, Local
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import Tree, changes, flatten
from isoscope.platform.runs.provenance import dvc_md5, file_sha256
from isoscope.platform.runs.secrets import scrub_tree

MANIFEST, SETTINGS, FILES = "manifest.json", "settings.json", "files"
VOCABULARY = "vocabulary"
"""Fact of a manifest: the hashes of the local files that each source of a joint vocabulary consists of."""


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
    folder = project.folder / paths.processed(task)
    known = _settings(project, task)[FILES]
    if wrong := changed(folder, known, file_sha256):
        raise _unfit(task, wrong)
    if strange := sorted(_hashes(folder).keys() - known):
        raise _unfit(task, f"{strange[0]} was not written by isoscope prepare")


def content_md5(folder: Path) -> str:
    """Return the hash of the data for run digests: different settings with equal bytes are the same data."""
    return dvc_md5(folder, leave_out={SETTINGS})


def read_manifest(project: paths.Project, task: str) -> dict[str, Any]:
    """Return a prepared task's manifest. Raises `InputError` if the task is not prepared, or a file is damaged."""
    if not (project.folder / paths.processed(task) / MANIFEST).is_file():
        raise _unfit(task, f"task {task!r} is not prepared")
    check_whole(project, task)
    return _read(project, task, MANIFEST)


def target_of(manifest: Mapping[str, Any]) -> str | None:
    """Return the column that the rows of a task have beside their text: `label`, `score` or `labels`; None: none.

    The manifest of an earlier version names classes only.
    """
    found: str | None = manifest.get("target", "label" if manifest.get("labels") else None)
    return found


def source(project: paths.Project, task: str, md5: str | None) -> Tree | None:
    """Return the section `data.source` of the prepared data with DVC hash `md5`; None if they are not here."""
    folder = project.folder / paths.processed(task)
    if not (folder / SETTINGS).is_file() or dvc_md5(folder) != md5:
        return None
    return dict(_settings(project, task)["data"]["source"])


def overridden(configuration: Configuration, task: str) -> list[str]:
    """Return the names below `data` that `-S` changes for a task."""
    try:
        plain = Configuration(configuration.folder, (), configuration.extra_plugins)
        without = flatten(settings(plain.data(task)))
    except InputError:  # the task exists only with -S
        without = {}
    return [*changes(without, flatten(settings(configuration.data(task))))]


def check_prepared(project: paths.Project, configuration: Configuration, task: str) -> None:
    """Check that the prepared data match this command's configuration, and that their files are intact.

    A task that is not prepared passes; its reader reports that. Raises `InputError` with both values and the remedy.
    """
    if not (project.folder / paths.processed(task) / MANIFEST).is_file():
        return
    data, origin = configuration.data_with_origin(task)
    stored = {name: value for name, value in _settings(project, task).items() if name != FILES}
    then, now = flatten(stored), flatten(settings(data))
    if differing := changes(then, now):
        name = min(differing, key=lambda one: not one.endswith(".kind"))
        if name.startswith("plugins."):
            raise _unfit(task, f"{name.removeprefix('plugins.')} has changed since the task was prepared")
        old, new = then.get(name, "missing"), now.get(name, "missing")
        more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        values = f"prepared with {name} {old!r}, but {origin(name)} says {new!r}{more}"
        if given := [one for one in overridden(configuration, task) if one in differing]:
            raise InputError(
                f"{paths.processed(task)}: {values}; -S {given[0]} cannot change prepared data: run isoscope repro "
                f"-S …, or define another task in {paths.VARIANTS}/task/"
            )
        raise _unfit(task, values)
    facts = read_manifest(project, task).get("facts", {})
    read = [(data.source, facts.get("inputs", {}))]
    if isinstance(data.tokenizer, JointTokenizer):
        read += zip(data.tokenizer.sources, facts[VOCABULARY], strict=True)
    local = [(Path(source.path), inputs) for source, inputs in read if isinstance(source, Local)]
    for place, name, known in ((place, *one) for place, inputs in local for one in inputs.items()):
        path = place if (project.folder / place).is_file() else place / name
        file = project.folder / path
        if file.is_file() and file_sha256(file) != known:  # a file that is gone passes, as in a clone
            raise _unfit(task, f"{path} has changed since it was prepared")


def _unfit(task: str, fault: str, more: str = "") -> InputError:
    return InputError(f"{paths.processed(task)}: {fault}; run: isoscope prepare {task}{more}")


def check_trained_on(inputs: Mapping[str, str], project: paths.Project, task: str, what: Path, command: str) -> None:
    """Check that a run (`what`, `inputs` of its config.yaml) was trained on the data that are prepared now."""
    folder = paths.processed(task)
    place = project.folder / folder
    as_found = (dvc_md5(place), content_md5(place))  # runs from before SETTINGS have the latter
    if inputs.get(folder.as_posix()) not in as_found:
        raise InputError(f"{what}: trained on other data than {folder} holds now; run: {command}")


def _settings(project: paths.Project, task: str) -> dict[str, Any]:
    there = (project.folder / paths.processed(task) / SETTINGS).is_file()
    found = _read(project, task, SETTINGS) if there else {}
    if not isinstance(found.get(FILES), dict):
        fault = f"no {SETTINGS} with settings and hashes (prepared by an older isoscope)"
        raise _unfit(task, fault, " (runs keep their digests if the data are equal)")
    return found


def _read(project: paths.Project, task: str, name: str) -> dict[str, Any]:
    try:
        found = json.loads((project.folder / paths.processed(task) / name).read_text("utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _unfit(task, f"{name} is damaged")
    return found
