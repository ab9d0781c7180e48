"""Load the configuration: YAML, overlays and `-S name=value`. Errors name the file, the path and the remedy."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import BaseModel, create_model

from isoscope import plugins
from isoscope.base import built_in, paths
from isoscope.base import kind as kinds
from isoscope.base.errors import InputError
from isoscope.base.registry import FUSIONS, OBJECTIVES, OBSERVERS, PENALTIES
from isoscope.platform.config import comparing
from isoscope.platform.config.comparing import Comparison
from isoscope.platform.config.data import Data
from isoscope.platform.config.declared import metrics_of
from isoscope.platform.config.explain import Faults, closest, find, nearest
from isoscope.platform.config.kinds import cell_type, data_type, valid_comparisons, valid_root, validate
from isoscope.platform.config.overrides import Override, check_once, parse_override, split_overrides
from isoscope.platform.config.project import Cell, Root, Study
from isoscope.platform.config.tree import NOT_IN_DIGEST, Origin, Tree, merge, read_yaml

CELL_SECTIONS = tuple(Cell.model_fields)
SECTIONS = (*Root.model_fields, *CELL_SECTIONS)
OVERRIDE = "-S"
SEARCHED = f"{paths.PARAMS}: search.space"


class ResolvedCell(NamedTuple):
    """A typed cell, its plain tree, and its axes."""

    cell: Cell
    tree: Tree
    axes: dict[str, str]

    def completed(self, manifest: Mapping[str, Any]) -> "ResolvedCell":
        """Return the cell with the options of its objective that its task decides; `manifest`: the task's."""
        objective = self.cell.objective
        options = built_in.load(built_in.GIVEN, "train").decided(objective, manifest)
        cell = self.cell.model_copy(update={"objective": objective.model_copy(update=options)})
        return self._replace(cell=cell, tree=self.tree | {"objective": self.tree["objective"] | options})


class Configuration:
    """params.yaml with its overlays, overrides and plugins, read and validated.

    Raises `InputError` (one line: file, dotted path, expected value) on a fault at any depth.
    """

    def __init__(
        self,
        folder: Path,
        overrides: Iterable[str] = (),
        extra_plugins: Iterable[Path] = (),
        *,
        raw: Tree | None = None,
        faults: Faults | None = None,
    ) -> None:
        """Read the configuration. `faults`, if given, collects faults instead of raising; `check` finds the others."""
        found = Faults() if faults is None else faults
        self.folder = folder
        self.given, self.extra_plugins = tuple(overrides), tuple(extra_plugins)
        self._overlays: dict[Path, Tree] = {}
        self.raw = read_yaml(folder, paths.PARAMS) if raw is None else raw
        self.overrides: list[Override] = []
        with found.each():
            check_once(self.given)
        for text in self.given:
            with found.each():
                self.overrides += [parse_override(one) for one in split_overrides(text)]
        origin = Origin(self.raw, str(paths.PARAMS))
        of_root = [one for one in self.overrides if one.reaches(Root.model_fields)]
        self._cell_overrides = [one for one in self.overrides if one not in of_root]
        for override in of_root:
            with found.each():
                override.apply(self.raw, OVERRIDE, origin)
        self._check_sections(found)
        self.root: Root = valid_root(self.raw, origin, found)
        self._cell_type: type[Cell] = Cell
        for path in (*(folder / name for name in self.root.plugins), *self.extra_plugins):
            with found.each():
                plugins.load(path)
        found.keep(*self._unknown_kinds())
        comparisons: dict[str, Comparison] = {}
        with found.each():
            comparisons = valid_comparisons(self.root.comparisons, origin)
        self.root = self.root.model_copy(update={"comparisons": comparisons})
        with found.each():
            self._cell_type = cell_type()
        self._check_overrides(found)
        if faults is None:
            found.stop()

    def _check_sections(self, found: Faults) -> None:
        """Check that every section of params.yaml is known; read a misspelt section under the closest known name."""
        for key in [key for key in self.raw if key not in SECTIONS]:
            found.keep(f"{paths.PARAMS}: {key}: unknown section{nearest(str(key), SECTIONS)}")
            tree = {closest(str(key), SECTIONS) or "": self.raw.pop(key)}
            merge(tree, self.raw)
            self.raw = tree

    def _unknown_kinds(self) -> Iterator[str]:
        """Yield a line for each study of a kind that does not exist, or that compares several studies."""
        several = comparing.kinds()
        known = [kind for kind in kinds.names() if kind not in several]
        for name, study in self.root.studies.items():
            if study.kind not in known:
                yield f"{paths.PARAMS}: studies.{name}.kind: no kind {study.kind!r}{nearest(study.kind, known)}"

    def _check_overrides(self, found: Faults) -> None:
        files = [path.relative_to(self.folder).as_posix() for path in (self.folder / paths.VARIANTS).glob("*/*.yaml")]
        files.append(paths.PARAMS.as_posix())
        for override in self._cell_overrides:
            file, name, section = override.file, override.name, override.section
            if file is not None and file not in files:
                found.keep(f"-S {file}:{name}: no such overlay{nearest(file, sorted(files))}")
            if section not in SECTIONS:
                found.keep(f"-S {name}: unknown section {section!r}{nearest(section, SECTIONS)}")

    def without_overrides(self) -> "Configuration":
        """Return the configuration as runs have it that other runs start from.

        Of `-S` for sections of cells, only what is no part of a run's digest, such as its device.
        """
        every = [one for text in self.given for one in split_overrides(text)]
        kept = [text for text in every if parse_override(text).name in NOT_IN_DIGEST]
        if all(one.name in NOT_IN_DIGEST for one in self._cell_overrides):
            return self
        return Configuration(self.folder, kept, self.extra_plugins, raw=copy.deepcopy(self.raw))

    def study(self, name: str) -> Study:
        """Return the study called `name`."""
        return find(name, self.root.studies, f"{paths.PARAMS}: studies.{name}: no such study")

    def comparison(self, name: str) -> Comparison:
        """Return the comparison called `name`."""
        return find(name, self.root.comparisons, f"{paths.PARAMS}: comparisons.{name}: no such comparison")

    def arms(self, study: str) -> dict[str, dict[str, str]]:
        """Return every arm of a study by name, as axis → value, in the order of its axes."""
        axes = self.study(study).axes
        arms = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
        return {"-".join(arm.values()): arm for arm in arms}

    def cells(self, study: str) -> dict[str, ResolvedCell]:
        """Return every resolved arm of a study, by name."""
        return {arm: self.cell(study, arm) for arm in self.arms(study)}

    def cell(
        self, study: str, arm: str, chosen: Mapping[str, Any] = MappingProxyType({}), settings: Iterable[str] = ()
    ) -> ResolvedCell:
        """Return the typed parameters of an arm. Merge order: params.yaml, task, settings, axes, `-S`, choices.

        `chosen`: axis → overlay (replaces or adds an axis of the arm), or dotted name → value. `settings`: overlays in
        addition to the study's. Refuses a name that does not exist under the chosen overlays.
        """
        own = find(arm, self.arms(study), f"{paths.PARAMS}: studies.{study}.axes: no arm {arm!r}")
        axes = own | {name: str(value) for name, value in chosen.items() if "." not in name}
        tree, origin = self._merged([*self._shared(study, settings), *axes.items()])
        for value in (Override(None, name, value) for name, value in chosen.items() if "." in name):
            if value.section == "data":
                raise InputError(f"{SEARCHED}: {value.name}: trials share the prepared data; search another name")
            value.apply(tree, SEARCHED, origin)
        cell = validate(self._cell_type, tree, origin)
        objective, select = cell.objective.kind, cell.training.select
        if metrics := metrics_of(objective):  # a plugin need not declare any
            where = f"{origin('training.select')}: training.select"
            find(select, metrics, f"{where}: objective {objective!r} has no metric {select!r}")
        return ResolvedCell(cell, tree, axes)

    def below(self, study: str, settings: Iterable[str] = ()) -> Tree:
        """Return the common base of a study's arms: params.yaml, the task's overlay, and the settings."""
        return self._merged(self._shared(study, settings))[0]

    def _shared(self, study: str, settings: Iterable[str]) -> list[tuple[str, str]]:
        known = self.study(study)
        return [("task", known.task), *(("settings", one) for one in (*known.settings, *settings))]

    def data(self, task: str) -> Data:
        """Return the section `data` of a task: a task of `tasks`, or any other task with an overlay."""
        return self.data_with_origin(task)[0]

    def data_with_origin(self, task: str) -> tuple[Data, Origin]:
        """Return the section `data` of a task, and the origin file of each value."""
        others = sorted(path.stem for path in (self.folder / paths.VARIANTS / "task").glob("*.yaml"))
        find(task, dict.fromkeys((*self.root.tasks, *others)), f"{paths.PARAMS}: tasks: no task {task!r}")
        only_data = create_model("DataCell", __base__=BaseModel, data=(data_type(), ...))
        tree, origin = self._merged([("task", task)], ("data",))
        return validate(only_data, {"data": tree.get("data", {})}, origin).data, origin

    def _merged(
        self, choices: Iterable[tuple[str, str]], sections: tuple[str, ...] = CELL_SECTIONS
    ) -> tuple[Tree, Origin]:
        tree = {name: copy.deepcopy(self.raw[name]) for name in sections if name in self.raw}
        origin = Origin(tree, str(paths.PARAMS))
        for place, (axis, value) in enumerate(choices):
            file = paths.overlay(axis, value)
            if axis == "task" and place:
                raise InputError(f"{file}: a task cannot be an axis; define a study for each task")
            overlay = self.overlay(file)
            check_sections(file, overlay)
            merge(tree, overlay)
            origin.lay(overlay, str(file))
        for override in self._cell_overrides:
            if override.reaches(sections):
                override.apply(tree, OVERRIDE, origin)
        return tree, origin

    def overlay(self, file: Path) -> Tree:
        """Return a copy of an overlay with its `-S` applied; each file is read only once."""
        if file not in self._overlays:
            self._overlays[file] = read_yaml(self.folder, file)
        overlay = copy.deepcopy(self._overlays[file])
        for override in self._cell_overrides:
            if override.file == str(file):
                override.apply(overlay, str(file))
        return overlay

    @staticmethod
    def plugin_digests(cell: Cell) -> dict[str, str]:
        """Return file → sha256 of code, for plugins whose fusion, objective, penalty or observers the cell uses.

        Data-set plugins are excluded: the hash of the data covers them.
        """
        used = [
            (FUSIONS, cell.model.fusion),
            (OBJECTIVES, cell.objective),
            (PENALTIES, cell.penalty),
            *((OBSERVERS, one) for one in cell.observers.values()),
        ]
        files = {registry.own[one.kind].file for registry, one in used if one.kind in registry.own}
        if len({file.name for file in files}) < len(files):
            raise InputError(f"plugins: two files of a run are called {next(iter(files)).name!r}; rename one")
        return {file.name: plugins.digest(file) for file in sorted(files)}


def check_sections(file: Path, overlay: Tree) -> None:
    """Refuse an overlay that sets a section it may not set, or that sets `data` and is not a task's."""
    found = Faults()
    for key in overlay:
        if key not in CELL_SECTIONS:
            found.keep(f"{file}: {key}: not a section an overlay may set{nearest(str(key), CELL_SECTIONS)}")
        elif key == "data" and file.parent != paths.VARIANTS / "task":
            found.keep(
                f"{file}: data: all arms of a task share its data; set it in an overlay of {paths.VARIANTS}/task/"
            )
    found.stop()
