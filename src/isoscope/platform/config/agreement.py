"""Check that params.yaml, overlays, profiles, dvc.yaml, MLproject and code.yaml agree."""

import copy
import re
import shlex
from collections.abc import Collection
from pathlib import Path

from isoscope.base.errors import InputError
from isoscope.base.paths import CODE, PARAMS, VARIANTS, overlay
from isoscope.platform.config.across_studies import check_all
from isoscope.platform.config.data import Local
from isoscope.platform.config.explain import Faults, find, nearest
from isoscope.platform.config.load import SECTIONS, Configuration, check_sections
from isoscope.platform.config.new_project import check_code
from isoscope.platform.config.profiles import drop, known, lacks_its_base
from isoscope.platform.config.tree import Tree, entries, merge, read_yaml

_ASSIGNMENT = re.compile(r"[A-Z_]+=")
_LOOPS = dict.fromkeys(("train", "states", "analyse"), ("studies", "study"))
_LOOPS["compare"] = ("comparisons", "comparison")
"""Command of a stage → section whose entries it loops over, and what an entry is called."""
DVC, MLPROJECT = Path("dvc.yaml"), Path("MLproject")


def check_agreement(folder: Path, configuration: Configuration | None, commands: Collection[str], found: Faults) -> int:
    """Check dvc.yaml, MLproject, every overlay and every profile against params.yaml; return the number of profiles.

    `configuration`: None if params.yaml cannot be read. `commands`: names of the CLI commands. `found`: faults of the
    configuration itself, to which file, key and expected value of every fault are added.
    """
    profiles = [*known(folder).values()]
    stages = _entries(folder, DVC, "stages", "cmd", commands, found)
    if (folder / MLPROJECT).exists() or not (folder / CODE).exists():  # a project of `isoscope new` has none
        _entries(folder, MLPROJECT, "entry_points", "command", commands, found)
    with found.each():
        check_code(folder)
    _check_overlays(folder, found)
    if configuration is not None:
        if stages is not None:
            _check_stages(stages, configuration, found)
        _check_places(configuration, found)
        _check_profiles(profiles, configuration, found)
    return len(profiles)


def _entries(folder: Path, file: Path, key: str, command: str, commands: Collection[str], found: Faults) -> Tree | None:
    """Return the entries below `key` of a file and check their commands; None if the file cannot be read."""
    with found.each():
        entries = read_yaml(folder, file).get(key) or {}
        if not isinstance(entries, dict):
            raise InputError(f"{file}: {key}: expected a mapping, got {type(entries).__name__}")
        for name, entry in entries.items():
            with found.each():
                body = entry.get("do", entry) if isinstance(entry, dict) else None
                if not isinstance(body, dict) or command not in body:
                    raise InputError(f"{file}: {key}.{name}: no {command}")
                _check_command(f"{file}: {key}.{name}.{command}", str(body[command]), commands)
        return {name: entry for name, entry in entries.items() if isinstance(entry, dict)}
    return None


def _check_places(configuration: Configuration, found: Faults) -> None:
    """Check that plugins and texts lie in folders that DVC watches."""
    found.keep(
        *(
            f"{PARAMS}: plugins: {name!r} is outside plugins/, where DVC does not see changes; put it there"
            for name in configuration.root.plugins
            if Path(name).parts[:1] != ("plugins",)
        )
    )
    for task in sorted(path.stem for path in (configuration.folder / overlay("task", "any").parent).glob("*.yaml")):
        with found.each():  # also tasks without a study: `isoscope prepare` accepts them
            source = configuration.data(task).source
            if isinstance(source, Local) and Path(source.path).parts[:1] != ("texts",):
                raise InputError(
                    f"{overlay('task', task)}: data.source.path: {source.path!r} is outside texts/, where DVC does not "
                    "see changes; put it there"
                )


def _check_profiles(profiles: list[Path], configuration: Configuration, found: Faults) -> None:
    """Check each profile merged over params.yaml; keep the faults that params.yaml alone does not have.

    Studies and comparisons that a profile does not name are the user's own: whether they fit is for `isoscope profile`.
    """
    before, folder = found.lines, configuration.folder
    params = read_yaml(folder, PARAMS)
    for file in profiles:
        own = Faults()
        with found.each():
            profile = read_yaml(folder, file)
            if lacks_its_base(configuration.raw, profile):  # `isoscope profile` refuses it; check the other sections
                profile = {key: value for key, value in profile.items() if key != "search"}
            tree = _named_by(profile, copy.deepcopy(params))
            merge(tree, profile)
            drop(tree, profile)
            laid = Configuration(folder, raw=tree, faults=own)
            with own.each():
                check_all(laid)
        found.keep(*(f"{file}: merged over params.yaml: {line}" for line in own.lines if line not in before))


def _named_by(profile: Tree, params: Tree) -> Tree:
    """Return the parameters without studies and comparisons that neither a profile nor the search names."""
    searched = entries(params, "search").get("study")
    for section in ("studies", "comparisons") if profile.get("studies") else ():
        named = [*entries(profile, section), searched]  # a list: the study of a search may be no name
        if params.get(section) is None or isinstance(params[section], dict):
            params[section] = {name: one for name, one in entries(params, section).items() if name in named}
    return params


def _check_stages(stages: Tree, configuration: Configuration, found: Faults) -> None:
    """Check that stages loop over all studies or comparisons, and that stage params are known sections."""
    for name, stage in stages.items():
        place, body = f"{DVC}: stages.{name}", stage.get("do", stage)
        if not isinstance(body, dict):  # `_entries` has named it
            continue
        if not isinstance(given := body.get("params", []), list):
            found.keep(f"{place}.params: expected a list, got {given!r}")
            continue
        sections = [one for one in given if one != {str(CODE): [name]}]
        strange = [one for one in sections if not isinstance(one, str) or one.split(".")[0] not in SECTIONS]
        found.keep(*(f"{place}.params: {one!r} is not a section{nearest(str(one), SECTIONS)}" for one in strange))
        _, command, entry, *_ = [*str(body.get("cmd", "")).split(), "", "", ""]
        if command not in _LOOPS:
            continue
        section, one = _LOOPS[command]
        if entry != "${key}":
            with found.each():
                find(entry, entries(configuration.raw, section), f"{place}.cmd: no {one} {entry!r}")  # also if invalid
            continue
        if (foreach := stage.get("foreach")) != f"${{{section}}}":
            found.keep(f"{place}.foreach: expected '${{{section}}}', got {foreach!r}")
        own = f"{section}.${{key}}"
        if not {own, section} & set(map(str, sections)):
            found.keep(f"{place}.params: DVC would miss changes of a {one}; add {own!r}")
    needed = ("train", "analyse", *(("compare",) if configuration.root.comparisons else ()))
    found.keep(*(f"{DVC}: stages.{verb}: missing" for verb in needed if verb not in stages))


def _check_command(place: str, command: str, known: Collection[str]) -> None:
    try:
        words = [word for word in shlex.split(command) if not _ASSIGNMENT.match(word)]
    except ValueError as error:
        raise InputError(f"{place}: {str(error).lower()}: {command!r}") from None
    if len(words) < 2 or words[0] != "isoscope":
        raise InputError(f"{place}: expected 'isoscope <command> …', got {command!r}")
    if words[1] not in known:
        raise InputError(f"{place}: no command {words[1]!r}{nearest(words[1], known)}")


def _check_overlays(folder: Path, found: Faults) -> None:
    """Check that every overlay parses and sets only known sections, including overlays that no study uses."""
    for path in sorted((folder / VARIANTS).glob("*/*.yaml")):
        file = path.relative_to(folder)
        with found.each():
            check_sections(file, read_yaml(folder, file))
