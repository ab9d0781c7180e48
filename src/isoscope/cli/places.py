"""Folders that `--out` may name: none that git, DVC or isoscope itself writes or reads."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from isoscope.config.tree import Tree, read_yaml
from isoscope.errors import InputError
from isoscope.paths import PARAMS, PLUGINS, PROFILES, VARIANTS

_DVC = Path("dvc.yaml")
_SOURCES = {*map(str, (VARIANTS, PROFILES, PLUGINS)), "benchmarks", "docs", "src", "tests", "texts"}
MLFLOW = {"mlflow.db", "mlartifacts", "mlruns"}
_TEMPLATE = re.compile(r"\$\{[^}]*\}")


def check_free(out: Path, *, such_as: str) -> None:
    """Raise `InputError` where `out` is a file, git's, MLflow's, or a source or output of the project around it."""
    place = out.resolve()
    project = next(
        (one for one in (place, *place.parents) if (one / PARAMS).is_file() and (one / _DVC).is_file()), None
    )
    parts = place.parts if project is None else place.relative_to(project).parts
    taken = None
    if place.exists() and not place.is_dir():
        taken = "is a file"
    elif ".git" in (part.casefold() for part in parts):
        taken = "is git's own"
    elif project is not None and parts:
        if parts[0].startswith("."):
            taken = f"is in {parts[0]}, which a tool keeps for itself"
        elif parts[0] in MLFLOW:
            taken = "is MLflow's own"
        elif parts[0] in _SOURCES:
            taken = f"is in {parts[0]}, among the project's sources"
        elif found := next((one for one in _outputs(read_yaml(project, _DVC)) if _overlap(parts, one)), None):
            taken = f"overlaps {found}, which the pipeline writes ({_DVC})"
    if taken:
        raise InputError(f"--out {out}: {taken}; give a folder of its own, such as {such_as}")


def _outputs(pipeline: Tree) -> Iterator[str]:
    """Paths of all outputs of the stages, with their templates."""
    for stage in (pipeline.get("stages") or {}).values():
        for kind in ("outs", "metrics", "plots"):
            for entry in (stage.get("do") or stage).get(kind) or ():
                yield next(iter(entry)) if isinstance(entry, dict) else str(entry)


def _overlap(parts: tuple[str, ...], output: str) -> bool:
    """Whether a place is an output, inside one, or around one."""
    patterns = PurePosixPath(_TEMPLATE.sub("*", output)).parts
    return all(fnmatchcase(part, pattern) for part, pattern in zip(parts, patterns, strict=False))
