"""Whether the files that name the same things agree: params.yaml, overlays, profiles, dvc.yaml, MLproject."""

import re
import shlex
from collections.abc import Collection
from pathlib import Path

from isoscope.config.data import Local
from isoscope.config.explain import nearest
from isoscope.config.load import CELL_SECTIONS, Configuration
from isoscope.config.profiles import laid_over
from isoscope.config.project import Root
from isoscope.config.tree import Tree, parse_yaml, read_yaml
from isoscope.errors import InputError
from isoscope.paths import PARAMS, PROFILES, VARIANTS, overlay

_ASSIGNMENT = re.compile(r"[A-Z_]+=")
_OF_STUDIES = ("train", "extract", "measure", "explore", "analyse", "chart")
DVC, MLPROJECT = Path("dvc.yaml"), Path("MLproject")


def check_agreement(folder: Path, configuration: Configuration, commands: Collection[str]) -> int:
    """Check dvc.yaml, MLproject, every overlay and every profile against params.yaml; returns the number of profiles.

    `commands` are the command line's own. Raises `InputError` naming the file, the key and what was expected.
    """
    stages = read_yaml(folder, DVC).get("stages") or {}
    _check_stages(stages, configuration)
    entries = read_yaml(folder, MLPROJECT).get("entry_points") or {}
    for place, command in (
        *((f"{DVC}: stages.{name}.cmd", stage["cmd"]) for name, stage in stages.items()),
        *((f"{MLPROJECT}: entry_points.{name}.command", entry["command"]) for name, entry in entries.items()),
    ):
        _check_command(place, str(command), commands)
    for name in configuration.root.plugins:
        if Path(name).parts[0] != "plugins":
            raise InputError(f"{PARAMS}: plugins: {name!r} is outside plugins/, where DVC would not see it change")
    for task in configuration.root.tasks:
        source = configuration.data(task).source
        if isinstance(source, Local) and Path(source.path).parts[0] != "texts":
            raise InputError(
                f"{overlay('task', task)}: data.source.path: {source.path!r} is outside texts/, where DVC does not see "
                "it change; put it there"
            )
    profiles = sorted((folder / PROFILES).glob("*.yaml"))
    text = (folder / PARAMS).read_text("utf-8")
    for path in profiles:
        profile = read_yaml(folder, PROFILES / path.name)
        try:
            tree = parse_yaml(laid_over(text, profile), str(PARAMS))
            laid = Configuration(folder, raw=tree)
            laid.check()
            _check_stages(stages, laid)
        except InputError as error:
            raise InputError(f"{PROFILES / path.name}: laid over params.yaml: {error}") from None
    _check_overlays(folder)
    return len(profiles)


def _check_stages(stages: Tree, configuration: Configuration) -> None:
    sections = (*Root.model_fields, *CELL_SECTIONS)
    for name, stage in stages.items():
        for section in stage.get("params", ()):
            if not isinstance(section, str) or section.split(".")[0] not in sections:
                raise InputError(
                    f"{DVC}: stages.{name}.params: {section!r} is no section{nearest(str(section), sections)}"
                )
        verb, _, study = name.partition("-")
        if verb in _OF_STUDIES and study not in configuration.root.studies:
            raise InputError(f"{DVC}: stages.{name}: no study {study!r}{nearest(study, configuration.root.studies)}")
    for study, settings in configuration.root.studies.items():
        matrix = {axis: f"${{studies.{study}.axes.{axis}}}" for axis in settings.axes}
        matrix["seed"] = f"${{studies.{study}.seeds}}"
        found = stages.get(f"train-{study}", {}).get("matrix")
        if found != matrix:
            raise InputError(f"{DVC}: stages.train-{study}.matrix: expected {matrix}, got {found}")
        declared = stages.get(f"train-{study}", {})
        shared = f"studies.{study}.settings"
        if settings.settings and not (
            shared in declared.get("params", ()) and f"{VARIANTS}/settings" in declared.get("deps", ())
        ):
            raise InputError(
                f"{DVC}: stages.train-{study}: {shared} are changed unseen; declare it under params, and "
                f"{VARIANTS}/settings under deps"
            )
        for verb in ("extract", "measure"):
            axes = {axis: f"${{studies.{study}.axes.{axis}}}" for axis in settings.axes}
            found = stages.get(f"{verb}-{study}", {}).get("matrix", axes)
            if found != axes:
                raise InputError(f"{DVC}: stages.{verb}-{study}.matrix: expected {axes}, got {found}")
        if f"analyse-{study}" not in stages:
            raise InputError(f"{DVC}: stages.analyse-{study}: missing, but {PARAMS} has the study {study!r}")


def _check_command(place: str, command: str, known: Collection[str]) -> None:
    words = [word for word in shlex.split(command) if not _ASSIGNMENT.match(word)]
    if len(words) < 2 or words[0] != "isoscope":
        raise InputError(f"{place}: expected 'isoscope <command> …', got {command!r}")
    if words[1] not in known:
        raise InputError(f"{place}: no command {words[1]!r}{nearest(words[1], known)}")


def _check_overlays(folder: Path) -> None:
    """Every overlay parses and sets known sections only, also those no study uses now."""
    for path in sorted((folder / VARIANTS).glob("*/*.yaml")):
        name = path.relative_to(folder)
        for section in read_yaml(folder, name):
            if section not in CELL_SECTIONS:
                raise InputError(
                    f"{name}: {section}: not a section an overlay may set{nearest(section, CELL_SECTIONS)}"
                )
