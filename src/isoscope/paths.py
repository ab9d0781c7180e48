"""Every file that crosses a stage's border, named once."""

import os
import re
from pathlib import Path
from typing import NamedTuple

from isoscope.errors import InputError

PARAMS = Path("params.yaml")
SCHEMA = Path("params.schema.json")
VARIANTS = Path("variants")
PROFILES = Path("profiles")
PLUGINS = Path("plugins")
INDEX = Path("reports/index.html")
SEARCH = Path("reports/search")
PARTS = Path("reports/parts")
RESULTS = "results"
INSIDE, FIGURES = "inside", "figures"
CHART, CHARTS = "chart", "charts"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*")


class Project(NamedTuple):
    """Where a command works: the tree it reads and the state that outlives a tree.

    `folder` holds params.yaml and dvc.yaml. `state` holds `.isoscope/` and the tracking database; in a temporary
    copy of the tree, as DVC makes one for an experiment, it stays with the original ($DVC_ROOT).
    """

    folder: Path
    state: Path

    @property
    def runs(self) -> Path:
        """Work under way and finished work, one folder per digest."""
        return self.state / ".isoscope" / "runs"

    @property
    def records(self) -> Path:
        """The record of every run, one JSON-lines file per digest."""
        return self.state / ".isoscope" / "records"


def find_project(start: Path | None = None) -> Project:
    """The project around `start` (the working folder): the nearest folder upwards that holds params.yaml and dvc.yaml.

    Raises `InputError` where there is none.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / PARAMS).is_file() and (folder / "dvc.yaml").is_file():
            root = os.environ.get("DVC_ROOT")
            return Project(folder, Path(root).resolve() if root else folder)
    raise InputError(f"{start}: no params.yaml and dvc.yaml here or in a folder above; change into an isoscope project")


def checked_name(kind: str, name: str) -> str:
    """`name`, if it can safely be part of a path (letters, digits, `_`, `.`; an arm joins such names by `-`)."""
    if not all(_NAME.fullmatch(part) for part in name.split("-")):
        raise InputError(f"{kind} {name!r}: expected letters, digits, '_' and '.', starting with a letter or digit")
    return name


def overlay(axis: str, value: str) -> Path:
    """The overlay that makes a choice: `variants/<axis>/<value>.yaml`."""
    return VARIANTS / checked_name("axis", axis) / f"{checked_name(axis, value)}.yaml"


def processed(task: str) -> Path:
    """A prepared task: parquet per split, manifest, tokenizer."""
    return Path("data/processed") / checked_name("task", task)


def trained(study: str, arm: str, seed: int) -> Path:
    """A finished training run: checkpoints, snapshots, metrics, predictions."""
    return Path("models") / checked_name("study", study) / checked_name("arm", arm) / f"seed-{seed}"


def extracted(study: str, arm: str, seed: int) -> Path:
    """Hidden states of a training run's snapshots over the probe set."""
    return Path("data/hidden_states") / checked_name("study", study) / checked_name("arm", arm) / f"seed-{seed}"


def measured(study: str, arm: str, seed: int) -> Path:
    """Tables of what was measured in a run's hidden states."""
    return Path("data/measures") / checked_name("study", study) / checked_name("arm", arm) / f"seed-{seed}"


def inside(study: str) -> Path:
    """Tables of what the arms of a study look like inside."""
    return analysed(study) / INSIDE


def figures(study: str) -> Path:
    """Pictures of the same."""
    return analysed(study) / FIGURES


def charted(study: str) -> Path:
    """Tables of a study's arms over training."""
    return analysed(study) / CHART


def charts(study: str) -> Path:
    """Pictures of the same."""
    return analysed(study) / CHARTS


def results(study: str) -> Path:
    """Figures of what the runs of a study scored."""
    return analysed(study) / RESULTS


def analysed(study: str) -> Path:
    """Tables, metrics and figures of one study."""
    return PARTS / checked_name("study", study)
