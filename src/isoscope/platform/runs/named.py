"""Find finished runs by what a person calls them: a folder, STUDY/ARM, a digest, or a git revision with DVC's cache."""

import re
from pathlib import Path
from subprocess import SubprocessError
from typing import NamedTuple

from dvc.api import DVCFileSystem
from dvc.exceptions import DvcException

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.platform.config.explain import nearest
from isoscope.platform.runs.lines import TRAIN, Run, RunRecord
from isoscope.platform.runs.output_files import CONFIG, METRICS, identity_of, named_digest
from isoscope.platform.runs.provenance import dvc_md5, run_git
from isoscope.platform.runs.record import read

PUBLISHED = f"models/*/*/seed-*/{CONFIG}"
LEVELS = {CONFIG: "run", METRICS: "run", "config.json": "run"} | {
    f"seed-*/{CONFIG}": "arm",
    f"*/seed-*/{CONFIG}": "study",
    PUBLISHED: "project",
}
"""File in a folder → what the folder is. A stored output has no config.yaml; of a checkpoint no run is known."""


class NamedRun(NamedTuple):
    """A run's output, with its identity and record (None: not here); or the folder of a checkpoint, without a run.

    `homes`: projects that may have its data and hidden states.
    """

    folder: Path
    run: Run | None
    record: RunRecord | None
    homes: tuple[Path, Path]

    def beside(self, run: Run) -> tuple[Path | None, Path | None]:
        """Return the prepared data that a run was trained on, and its hidden states; None if they are not here."""
        data, states = paths.processed(str(run.task)), paths.extracted(str(run.study), str(run.arm), run.seed or 0)
        there = [home / data for home in self.homes if (home / data).is_dir()]
        found = next((one for one in there if dvc_md5(one) == run.inputs.get(data.as_posix())), None)
        made = [home / states for home in self.homes if (home / states / CONFIG).is_file()]
        return found, next((one for one in made if run.digest in (one / CONFIG).read_text("utf-8")), None)


def named(word: str, project: paths.Project, scratch: Path) -> tuple[str, dict[str, NamedRun]]:
    """Return what a word names (run, arm, study, project), and its runs by what distinguishes them (`seed-0`).

    Tried in turn: a folder, a study or arm of the project, a digest, a revision, whose files are copied from DVC's
    cache to the empty folder `scratch`. Raises `InputError` for other words.
    """
    places = [Path(word).resolve(), project.folder / "models" / word]
    if re.fullmatch(r"[0-9a-f]{4,64}", word):
        stored = {one.parents[1].name: one.parent for one in project.runs.glob(f"{word}*/output/{METRICS}")}
        published = {named_digest(one) or "": one.parent for one in project.folder.glob(PUBLISHED)}
        found = {digest: place for digest, place in (stored | published).items() if digest.startswith(word)}
        if len(found) > 1:
            raise InputError(f"{word}: {len(found)} runs begin with it: {', '.join([*found][:2])} …; give more of it")
        places += found.values()
    if not any(place.exists() for place in places):
        revision, _, path = word.partition(":")
        places = [_restored(word, revision, path.removeprefix("models").strip("/"), project, scratch)]
    for place, pattern in ((place, pattern) for place in places for pattern in LEVELS):
        if files := sorted(place.glob(pattern)):
            return LEVELS[pattern], {
                str(one.parent.relative_to(place)): _run(one.parent, project, scratch) for one in files
            }
    raise InputError(f"{word}: no finished run and no checkpoint is there")


def _run(folder: Path, project: paths.Project, scratch: Path) -> NamedRun:
    run = identity_of(folder, 0) if (folder / CONFIG).is_file() else None
    if run and run.stage != TRAIN:
        raise InputError(
            f"{folder}: an output of the stage {run.stage}; name a training run, as models/STUDY/ARM/seed-N"
        )
    root = folder.parents[3] if folder.parts[-4:-3] == ("models",) else project.folder
    name = f".isoscope/records/{run.digest if run else folder.parent.name}.jsonl"
    # A record of this machine does not say how another machine made the same run.
    here = any(folder.is_relative_to(one) for one in (project.folder, project.state, scratch))
    homes = (root, project.state) if here else (root,)
    record = next((read(home / name) for home in homes if (home / name).is_file()), None)
    return NamedRun(folder, run or (record.run if record else None), record, (root, project.folder))


def _restored(word: str, revision: str, path: str, project: paths.Project, scratch: Path) -> Path:
    """Copy a path below models/ of a revision, and the hidden states of its runs, from DVC's cache; return the copy."""
    try:
        run_git(project.folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        files = DVCFileSystem(str(project.folder), rev=revision)
        for place in (f"{top}/{path}".strip("/") for top in ("models", "data/hidden_states")):
            if files.exists(place):
                files.get(place, str(scratch / place), recursive=True)
    except (DvcException, OSError, SubprocessError) as error:
        known = nearest(word.partition("/")[0], [one.name for one in project.folder.glob("models/*")])
        said = f"{word}: no folder, study, arm, digest, or git revision with its files in DVC's cache{known}"
        raise InputError(said) from error
    return scratch / "models" / path if path else scratch
