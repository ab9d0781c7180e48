"""Folders that `--out` may name: none that git, DVC or isoscope itself writes or reads."""

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
# What a result holds at most, and at least.
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
        elif found := next((one for one in _outputs(project) if _overlap(parts, one)), None):
            taken = f"overlaps {found}, which the pipeline writes ({_DVC})"
    if taken:
        raise InputError(f"--out {out}: {taken}; give a folder of its own, such as {such_as}")


def _outputs(project: Path) -> Iterator[str]:
    """Paths of all outputs of the stages, one for each task or study that a stage is for."""
    params = read_yaml(project, PARAMS)
    for stage in (read_yaml(project, _DVC).get("stages") or {}).values():
        section = _TEMPLATE.fullmatch(str(stage.get("foreach")))
        names = list(params.get(section[1]) or ()) if section else [""]
        for kind in ("outs", "metrics", "plots"):
            for entry in (stage.get("do") or stage).get(kind) or ():
                output = next(iter(entry)) if isinstance(entry, dict) else str(entry)
                yield from dict.fromkeys(_TEMPLATE.sub(str(name), output) for name in names)


def _overlap(parts: tuple[str, ...], output: str) -> bool:
    """Whether a place is an output, inside one, or around one."""
    return all(part == own for part, own in zip(parts, PurePosixPath(output).parts, strict=False))


def replaceable(
    out: Path, project: Path, studies: Collection[str], result: tuple[Collection[str], Collection[str]]
) -> Path:
    """`out`, absolute, if it is free or an earlier result by hand: publishing replaces the whole folder."""
    place = out.resolve()
    if not place.is_relative_to(project.resolve()):
        raise InputError(f"--out {out}: leads out of the project; give a folder within {project}")
    parts = place.relative_to(project.resolve()).parts
    for top, own in (("models", studies), ("data", _OWN_DATA)):
        if parts[:1] == (top,) and (len(parts) < 2 or parts[1] in own):
            raise InputError(
                f"--out {out}: is the pipeline's own place; give another folder, such as {top}/by-hand/name"
            )
    check_free(out, such_as=f"{'data' if result is PREPARED else 'models'}/by-hand/name")
    held = {path.name for path in place.iterdir()} if place.is_dir() else {place.name} if place.exists() else set()
    most, least = map(set, result)
    if held and not least <= held <= most:
        raise InputError(f"--out {out}: holds something other than an earlier result; give a new folder")
    return place
