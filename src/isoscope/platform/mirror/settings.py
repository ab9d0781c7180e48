"""Which parameters of a training run differ from its study's settings, as committed in git."""

import json
import subprocess
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from isoscope.base import built_in
from isoscope.base.errors import InputError
from isoscope.base.paths import PARAMS, overlay, processed
from isoscope.platform.config.tree import Tree, as_text, differing, flatten, merge, parse_yaml, read_yaml
from isoscope.platform.runs.lines import TRAIN, Run

MOST = 4
"""Parameters in a name or a column; a run of another profile differs in dozens."""


def changed(folder: Path, run: Run) -> dict[str, Any]:
    """Return the parameters of a training run, by dotted name, that differ from its study's settings in `folder`.

    The settings are params.yaml with the study's and the arm's overlays, as committed; without git, as they are now.
    Empty if the study has no such settings any more.
    """
    if run.stage != TRAIN or run.study is None:
        return {}
    try:
        settings = _settings(folder, run)
        return differing(run.params, flatten(settings | {"objective": _decided(folder, settings)}))
    except (InputError, AttributeError, KeyError, TypeError):  # another project's run, or settings invalid by now
        return {}


def written(changes: Mapping[str, Any]) -> str:
    """Return changed parameters for a name: `learning_rate=0.0003`, each name as short as it is clear."""
    names = {name: _short(name, changes) for name in changes}
    texts = [f"{names[name]}={as_text(value)}" for name, value in changes.items()]
    more = [f"and {len(texts) - MOST} more"] if len(texts) > MOST else []
    return " ".join([*texts[:MOST], *more])


def _short(name: str, among: Mapping[str, Any]) -> str:
    last = name.rpartition(".")[2]
    alone = sum(other.rpartition(".")[2] == last for other in among) == 1
    return last if alone and last != "kind" else ".".join(name.split(".")[-2:])


def _settings(folder: Path, run: Run) -> Tree:
    tree = deepcopy(_committed(folder, PARAMS))
    study = tree["studies"][run.study]
    settings = [("settings", name) for name in study.get("settings") or ()]
    for axis, value in (("task", study["task"]), *settings, *run.axes.items()):
        merge(tree, _committed(folder, overlay(axis, str(value))))
    return tree | {"task": study["task"]}


def _decided(folder: Path, settings: Tree) -> Tree:
    """Return the section `objective` with what the study's prepared task decides, as the run has it."""
    objective: Tree = settings["objective"]
    try:
        manifest = json.loads((folder / processed(settings["task"]) / "manifest.json").read_text("utf-8"))
    except (OSError, ValueError):
        manifest = {}
    given = built_in.load(built_in.GIVEN, "train")
    return objective | given.decided(SimpleNamespace(**objective), manifest)


@cache
def _committed(folder: Path, file: Path) -> Tree:
    command = ["git", "show", f"HEAD:./{file.as_posix()}"]
    try:
        shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)
    except (OSError, UnicodeDecodeError):
        return read_yaml(folder, file)
    tree = parse_yaml(shown.stdout, str(file)) if shown.returncode == 0 else read_yaml(folder, file)
    return tree if isinstance(tree, dict) else {}
