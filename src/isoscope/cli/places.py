"""Check the folder of `--out`: git, DVC and isoscope must not read or write it themselves."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from isoscope.config.tree import read_yaml
from isoscope.errors import InputError
from isoscope.paths import PARAMS, PLUGINS, PROFILES, VARIANTS

_DVC = Path("dvc.yaml")
_SOURCES = {*map(str, (VARIANTS, PROFILES, PLUGINS)), "benchmarks", "docs", "src", "tests", "texts"}
MLFLOW = {"mlflow.db", "mlartifacts", "mlruns"}
_TEMPLATE = re.compile(r"\$\{([^}]*)\}")
# Files that a result may hold, and files that it must hold.
TRAINED = (
    {"config.yaml", "metrics.jsonl", "predictions.parquet", "trace.json", "checkpoints", "snapshots"},
    {"config.yaml", "metrics.jsonl"},
)
PREPARED = (
    {
        *(f"{split}.parquet" for split in ("train", "validation", "test", "treebank")),
        "tokenizer",
        "manifest.json",
        "settings.json",
    },
    {"manifest.json", "settings.json"},
)
_OWN_DATA = ("processed", "hidden_states", "measures")


def check_free(out: Path, *, such_as: str) -> None:
    """Raise `InputError` if `out` is a file, belongs to git or MLflow, or is a source or output of the project."""
    place = out.resolve()
    project = next(
        (one for one in (place, *place.parents) if (one / PARAMS).is_file() and (one / _DVC).is_file()), None
    )
    parts = place.parts if project is None else place.relative_to(project).parts
    taken = None
    if place.exists() and not place.is_dir():
        taken = "is a file"
    elif ".git" in (part.casefold() for part in parts):
        taken = "belongs to git"
    elif project is not None and parts:
        if parts[0].startswith("."):
            taken = f"is in {parts[0]}, a hidden folder of a tool"
        elif parts[0] in MLFLOW:
            taken = "belongs to MLflow"
        elif parts[0] in _SOURCES:
            taken = f"is in {parts[0]}, among the project's sources"
        elif found := next((one for one in _outputs(project) if _overlap(parts, one)), None):
            taken = f"overlaps {found}, which the pipeline writes ({_DVC})"
    if taken:
        raise InputError(f"--out {out}: {taken}; give a separate folder, such as {such_as}")


def _outputs(project: Path) -> Iterator[str]:
    """Yield the paths of all stage outputs; stages with `foreach` have outputs per task or study."""
    params = read_yaml(project, PARAMS)
    for stage in (read_yaml(project, _DVC).get("stages") or {}).values():
        section = _TEMPLATE.fullmatch(str(stage.get("foreach")))
        names = list(params.get(section[1]) or ()) if section else [""]
        for kind in ("outs", "metrics", "plots"):
            for entry in (stage.get("do") or stage).get(kind) or ():
                output = next(iter(entry)) if isinstance(entry, dict) else str(entry)
                yield from dict.fromkeys(_TEMPLATE.sub(str(name), output) for name in names)


def _overlap(parts: tuple[str, ...], output: str) -> bool:
    """Return whether a path equals an output, lies inside it, or contains it."""
    return all(part == own for part, own in zip(parts, PurePosixPath(output).parts, strict=False))


def replaceable(
    out: Path, project: Path, studies: Collection[str], result: tuple[Collection[str], Collection[str]]
) -> Path:
    """Return `out` as an absolute path. It must be free or hold an earlier result, because publishing replaces it."""
    place = out.resolve()
    if not place.is_relative_to(project.resolve()):
        raise InputError(f"--out {out}: is outside the project; give a folder in {project}")
    parts = place.relative_to(project.resolve()).parts
    for top, own in (("models", studies), ("data", _OWN_DATA)):
        if parts[:1] == (top,) and (len(parts) < 2 or parts[1] in own):
            raise InputError(
                f"--out {out}: is a folder of the pipeline; give another folder, such as {top}/by-hand/name"
            )
    check_free(out, such_as=f"{'data' if result is PREPARED else 'models'}/by-hand/name")
    held = {path.name for path in place.iterdir()} if place.is_dir() else {place.name} if place.exists() else set()
    most, least = map(set, result)
    if held and not least <= held <= most:
        raise InputError(f"--out {out}: holds files that are not an earlier result; give a new folder")
    return place
