"""Paths of all files that stages share."""

import os
import re
from pathlib import Path
from typing import NamedTuple

from isoscope.base.errors import InputError

PARAMS = Path("params.yaml")
CODE = Path("code.yaml")
"""Digests of the installed code, in a project that `isoscope new` made."""
VARIANTS = Path("variants")
PROFILES = Path("profiles")
PLUGINS = Path("plugins")
INDEX = Path("reports/index.html")
LARGE_TABLES = Path("reports/data")
"""Large tables of the report's figures."""
SEARCH = Path("reports/search")
CONFIRMED = Path("reports/search-confirmed.json")
"""What `isoscope search confirm` found last."""
PARTS = Path("reports/parts")
SUMS = Path("SHA256SUMS")
"""Hashes of the files of an opened bundle, which lacks what it does not name."""
TABLES, FIGURES = "tables", "figures"
"""Tables of a study or comparison, and their figures."""

LONGEST = 200
"""Characters of a name in a path; a file system allows 255 bytes, and temporary files have longer names."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*")


class Project(NamedTuple):
    """Folders of a project: the tree that commands read, and the state.

    `folder` holds params.yaml and dvc.yaml. `state` holds `.isoscope/` and the tracking database; in a temporary copy
    of the tree (a DVC experiment) it is the original folder ($DVC_ROOT).
    """

    folder: Path
    state: Path

    @property
    def runs(self) -> Path:
        """Folder of running and finished runs, one subfolder per digest."""
        return self.state / ".isoscope" / "runs"

    @property
    def records(self) -> Path:
        """Folder of run records, one JSON-lines file per digest."""
        return self.state / ".isoscope" / "records"

    @property
    def locks(self) -> Path:
        """Folder of the locks between processes that are not of a run."""
        return self.state / ".isoscope" / "locks"

    @property
    def slurm(self) -> Path:
        """Folder of what was submitted to Slurm, one subfolder per array of jobs."""
        return self.state / ".isoscope" / "slurm"


def find_project(start: Path | None = None) -> Project:
    """Return the project around `start` [default: working folder]: the nearest parent with params.yaml and dvc.yaml.

    Raises `InputError` if there is none, or if $DVC_ROOT is another project.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / PARAMS).is_file() and (folder / "dvc.yaml").is_file():
            return Project(folder, _state(folder))
    raise InputError(
        f"{start}: no params.yaml and dvc.yaml here or in a parent folder; change to an isoscope project, or "
        "make one with: isoscope new NAME"
    )


def _state(folder: Path) -> Path:
    """Return the folder of the state: the project, or the project that DVC has copied for an experiment ($DVC_ROOT)."""
    root = Path(os.environ.get("DVC_ROOT") or folder).resolve()
    if folder.is_relative_to(root / ".dvc" / "tmp"):
        return root
    if not folder.is_relative_to(root):  # inherited, as from a shell in another project's stage
        raise InputError(f"DVC_ROOT={root} in the environment is not the project {folder}; run: unset DVC_ROOT")
    return folder


def checked_name(kind: str, name: str) -> str:
    """Return `name` if it is safe in a path (letters, digits, `_`, `.`; an arm joins such names with `-`)."""
    if len(name) > LONGEST:
        raise InputError(f"{kind} {name[:40]!r}…: has {len(name)} characters; give it at most {LONGEST}")
    if not all(_NAME.fullmatch(part) for part in name.split("-")):
        raise InputError(f"{kind} {name!r}: expected letters, digits, '_', '.' and '-', first a letter or digit")
    return name


def overlay(axis: str, value: str) -> Path:
    """Return the overlay of an axis value: `variants/<axis>/<value>.yaml`."""
    return VARIANTS / checked_name("axis", axis) / f"{checked_name(axis, value)}.yaml"


def processed(task: str) -> Path:
    """Folder of a prepared task: a parquet file per split, manifest, tokenizer."""
    return Path("data/processed") / checked_name("task", task)


def trained(study: str, arm: str, seed: int) -> Path:
    """Folder of a finished training run: checkpoints, snapshots, metrics, predictions."""
    return _of_cell(Path("models"), study, arm, seed)


def extracted(study: str, arm: str, seed: int) -> Path:
    """Folder of the hidden states of a run's snapshots over the probe set."""
    return _of_cell(Path("data/hidden_states"), study, arm, seed)


def measured(study: str, arm: str, seed: int) -> Path:
    """Folder of the measures of a run's hidden states."""
    return _of_cell(Path("data/measures"), study, arm, seed)


def _of_cell(place: Path, study: str, arm: str, seed: int) -> Path:
    return place / checked_name("study", study) / checked_name("arm", arm) / f"seed-{seed}"


def analysed(study: str) -> Path:
    """Folder of what a study or comparison found, with the subfolders `TABLES` and `FIGURES`."""
    return PARTS / checked_name("study", study)
