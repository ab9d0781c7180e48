"""Folders that a user names with --out: which are free, and which hold an earlier result that may be replaced."""

import os
import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from isoscope.base.errors import InputError
from isoscope.base.paths import LONGEST, PARAMS, PLUGINS, PROFILES, VARIANTS, Project

_DVC = Path("dvc.yaml")
_SOURCES = {*map(str, (VARIANTS, PROFILES, PLUGINS)), "benchmarks", "docs", "src", "tests", "texts"}
MLFLOW = {"mlflow.db", "mlartifacts", "mlruns"}
_TEMPLATE = re.compile(r"\$\{([^}]*)\}")
_FACTS = {"manifest.json", "settings.json"}  # of prepared data
_PREPARED = {*_FACTS, "tokenizer", *(f"{split}.parquet" for split in ("train", "validation", "test", "treebank"))}
_OWN_DATA = ("processed", "hidden_states", "measures")


def check_free(out: Path, *, such_as: str, key: str = "--out") -> None:
    """Raise `InputError` if `out` is a file, belongs to git or MLflow, or is a source or output of the project."""
    if len(os.fsencode(out.name)) > LONGEST:
        raise InputError(f"{key} {out.name[:40]}…: longer than {LONGEST} bytes; give a shorter name")
    place = out.resolve()
    project = next(
        (one for one in (place, *place.parents) if (one / PARAMS).is_file() and (one / _DVC).is_file()), None
    )
    inside = place.relative_to(project) if project else Path()
    top = next(iter(inside.parts), "")
    try:
        outputs = [*(_outputs(project) if project and top else ())]
    except (TypeError, AttributeError):
        raise InputError(
            f"{key} {out}: {PARAMS} or {_DVC} of {project} is malformed, so its outputs are not known; isoscope check "
            "lists the faults"
        ) from None
    written = (one for one in outputs if inside.is_relative_to(one) or Path(one).is_relative_to(inside))
    reasons = {
        "is a file": place.exists() and not place.is_dir(),
        "belongs to git": ".git" in (part.casefold() for part in (inside if project else place).parts),
        f"is in {top}, a hidden folder of a tool": top.startswith("."),
        "belongs to MLflow": top in MLFLOW,
        f"is in {top}, among the project's sources": top in _SOURCES,
        **{f"overlaps {one}, which the pipeline writes ({_DVC})": True for one in written},
    }
    if taken := [reason for reason, applies in reasons.items() if applies]:
        raise InputError(f"{key} {out}: {taken[0]}; give a separate folder, such as {such_as}")


def _outputs(project: Path) -> Iterator[str]:
    """Yield the paths of all stage outputs; stages with `foreach` have outputs per task or study."""
    from isoscope.platform.config.tree import read_yaml

    params = read_yaml(project, PARAMS)
    for stage in (read_yaml(project, _DVC).get("stages") or {}).values():
        section = _TEMPLATE.fullmatch(str(stage.get("foreach")))
        names = list(params.get(section[1]) or ()) if section else [""]
        for kind in ("outs", "metrics", "plots"):
            for entry in (stage.get("do") or stage).get(kind) or ():
                output = next(iter(entry), "") if isinstance(entry, dict) else str(entry)
                yield from dict.fromkeys(_TEMPLATE.sub(str(name), output) for name in names)


def replaceable(out: Path, project: Project, studies: Collection[str], *, of_run: bool) -> Path:
    """Return `out` as an absolute path. It must be free or hold an earlier result, because publishing replaces it.

    An earlier result holds nothing but what its run wrote (`of_run`), or prepared data.
    """
    place, root = out.resolve(), project.folder.resolve()
    if not place.is_relative_to(root):
        raise InputError(f"--out {out}: is outside the project; give a folder in {project.folder}")
    parts = place.relative_to(root).parts
    for top, own in (("models", studies), ("data", _OWN_DATA)):
        if parts[:1] == (top,) and (len(parts) < 2 or parts[1] in own):
            raise InputError(
                f"--out {out}: is a folder of the pipeline; give another folder, such as {top}/by-hand/name"
            )
    check_free(out, such_as=f"{'models' if of_run else 'data'}/by-hand/name")
    held = {path.name for path in place.iterdir()} if place.is_dir() else set()
    if held and not (_of_run(project, place) if of_run else _FACTS <= held <= _PREPARED):
        raise InputError(f"--out {out}: holds files that are not an earlier result; give a new folder")
    return place


def _of_run(project: Project, place: Path) -> bool:
    """Whether a folder holds what the run in its config.yaml wrote, and nothing else.

    If the run is not here any more, whether it looks as the output of a run.
    """
    from isoscope.platform.runs.card import CARD
    from isoscope.platform.runs.output_files import CONFIG, METRICS, OBJECTIVE, named_digest
    from isoscope.platform.runs.stored import written_by

    if (digest := named_digest(place / CONFIG)) is None:
        return False
    files = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    added = {CONFIG, *(name for name in files if fnmatchcase(name, f"checkpoints/*/{CARD}"))}  # when it was published
    written = {*written_by(project, digest)}
    return files - added <= written if written else {METRICS, OBJECTIVE} <= files
