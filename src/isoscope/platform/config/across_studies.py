"""What sections of the configuration say of each other: runs to start from, compared studies, corners of a search."""

from collections.abc import Container, Sequence
from pathlib import Path

from isoscope.base import built_in, paths
from isoscope.base.built_in import MEASURES_OF_PAIRS
from isoscope.base.errors import InputError
from isoscope.base.kind import kind
from isoscope.base.registry import MEASURES
from isoscope.platform.config.declared import with_target
from isoscope.platform.config.explain import Faults, find, nearest
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.model import Model
from isoscope.platform.config.project import Extraction, Measures
from isoscope.platform.config.searching import corners


def start_cells(configuration: Configuration, study: str, model: Model, seed: int) -> dict[str, tuple[str, str, int]]:
    """Return the cells (study, arm, seed) that a run of `study` starts from, by their part of its section `model`.

    Raises `InputError` if there is no such arm or next seed, if several seeds of the study would start from one run,
    and if the other study has another task.
    """
    own, found = configuration.study(study), {}
    for name, part in model.starts.items():
        place, other = f"{paths.PARAMS}: studies.{study}: model.encoder", configuration.study(part.study)
        find(part.arm, configuration.arms(part.study), f"{place}: study {part.study!r} has no arm {part.arm!r}")
        if other.task != own.task:
            raise InputError(f"{place}: study {part.study!r} has task {other.task!r}, but this study has {own.task!r}")
        found[name] = part.study, part.arm, seed
        if part.seed == "next":
            following = _following(seed, other.seeds)
            if following == seed:
                raise InputError(f"{place}: no seed after {seed}; study {part.study!r} has seeds {list(other.seeds)}")
            if len({_following(one, other.seeds) for one in own.seeds}) < len(own.seeds):  # not independent runs
                raise InputError(
                    f"{place}: several seeds of {study!r} would start from one run; study {part.study!r} has seeds "
                    f"{list(other.seeds)}: give it as many"
                )
            found[name] = part.study, part.arm, following
    return found


def _following(seed: int, seeds: Sequence[int]) -> int:
    """Return the next larger of some seeds, else the smallest; without seeds, the seed itself."""
    return min((one for one in seeds if one > seed), default=min(seeds, default=seed))


def check_comparison(configuration: Configuration, name: str) -> None:
    """Check that a comparison has a name of its own, and that its studies are run and have what it needs."""
    place, found = f"{paths.PARAMS}: comparisons.{name}", Faults()
    if name in configuration.root.studies:
        found.keep(f"{place}: a study has this name, and both write to {paths.analysed(name)}; rename one")
    comparison, studies = configuration.comparison(name), configuration.root.studies
    for task in comparison.tasks:
        if task not in configuration.root.tasks:
            found.keep(f"{place}: task {task!r} is not in tasks {[*configuration.root.tasks]}; add it")
    for study in comparison.compared:
        if study not in studies:
            found.keep(f"{place}: no study {study!r}{nearest(study, studies)}")
        elif not studies[study].seeds:
            found.keep(f"{place}: study {study!r} has no seeds; set studies.{study}.seeds")
        elif lacks := comparison.lacks(study, {name: arm.cell for name, arm in configuration.cells(study).items()}):
            found.keep(f"{place}: study {study!r} {lacks}")
    found.stop()


def check_search(configuration: Configuration, known: Container[str] = ()) -> None:
    """Resolve every corner of the search space, so that no trial sets a name that does not exist.

    Lines in `known` are not repeated.
    """
    root, found = configuration.root, Faults()
    search = root.search
    if search is None:
        return
    find(search.study, root.studies, f"{paths.PARAMS}: search.study: no study {search.study!r}")
    find(search.arm, configuration.arms(search.study), f"{paths.PARAMS}: search.arm: no arm {search.arm!r}")
    under: dict[str, str] = {}
    for chosen in corners(search):
        axes = ", ".join(f"{name} {value}" for name, value in chosen.items() if "." not in name)
        more = f" (under {axes}; restrict the name with `when`)" if axes else ""
        try:
            keep = configuration.cell(search.study, search.arm, chosen, search.settings).cell.training.keep
        except InputError as error:
            under |= {line: more for line in error.lines if line not in under}
            continue
        if keep != "best":
            cure = "a search keeps only the best checkpoint; set it to best"
            found.keep(f"{paths.PARAMS}: search: training.keep is {keep!r} in its trials, but {cure}")
    found.keep(*(f"{line}{more}" for line, more in under.items() if line not in known))
    found.stop()


def check_measures(extraction: Extraction, measures: Measures) -> None:
    """Check that all measures exist, and that measures of pairs have pairs. Raises `InputError` with all faults."""
    found, place = Faults(), f"{paths.PARAMS}: measures.names"
    for name in measures.names:
        with found.each():
            find(
                name,
                dict.fromkeys(MEASURES),
                f"{place}: no measure {name!r}; a custom measure must be loaded as a plugin",
            )
        of_pairs = name in MEASURES_OF_PAIRS or (name in MEASURES.own and MEASURES.own[name].of == "pairs")
        if of_pairs and extraction.pairs is None:
            found.keep(f"{place}: {name} needs scored pairs of sentences; set extraction.pairs")
    found.stop()


def check_states(configuration: Configuration, study: str, objective: str) -> None:
    """Check that a study whose hidden states are read trains models of labels or scores. Raises `InputError`."""
    settings, known = configuration.study(study), [one.name for one in with_target()]
    if objective in built_in.METRICS and objective not in known and (settings.states or kind(settings.kind).stores):
        reads = "states: true" if settings.states else f"kind: {settings.kind}"
        raise InputError(
            f"{paths.PARAMS}: studies.{study}: {reads} reads the states of models with a classifier, but its objective "
            f"is {objective!r}; set one of {', '.join(known)}, or look at a checkpoint with isoscope geometry"
        )


def metric_files(folder: Path, metrics: Sequence[str]) -> dict[str, Path]:
    """Return the file of each further metric that is no name on the hub.

    Raises `InputError` for a missing file, and for a folder with the name of a metric on the hub: `evaluate` would run
    its code instead.
    """
    files = {one: folder / one for one in metrics if one.endswith(".py")}
    if lacking := [one for one, file in files.items() if not file.is_file()]:
        raise InputError(f"training.metrics: {lacking[0]}: no such file; put it there, or correct the name")
    names = [one for one in metrics if one not in files]
    if hidden := [one for one in names if any((place / one).exists() for place in (folder, Path()))]:
        raise InputError(
            f"training.metrics: {hidden[0]}: a folder or file of this name would stand for the metric on the hub; name "
            "a file below plugins/, or rename it"
        )
    return files


def check_all(configuration: Configuration) -> int:
    """Resolve every task and every arm of every study; return their number.

    Raises `InputError` with all faults.
    """
    found, tasks = Faults(), configuration.root.tasks
    for name, study in configuration.root.studies.items():
        if study.seeds and tasks and study.task not in tasks:
            found.keep(f"{paths.PARAMS}: studies.{name}.task: {study.task!r} is not in tasks {list(tasks)}; add it")
    for task in tasks:
        with found.each():
            configuration.data(task)
    run = [name for name, study in configuration.root.studies.items() if study.task in tasks]
    cells = [(name, arm) for name in run for arm in configuration.arms(name)]
    for name, arm in cells:
        with found.each():
            cell = configuration.cell(name, arm).cell
            metric_files(configuration.folder, cell.training.metrics)
            check_states(configuration, name, cell.objective.kind)
            for seed in configuration.study(name).seeds:
                start_cells(configuration, name, cell.model, seed)
    for name in configuration.root.comparisons:
        with found.each():
            check_comparison(configuration, name)
    with found.each():
        if {"extraction", "measures"} <= {*vars(configuration.root)}:  # a section with a fault is not there
            check_measures(configuration.root.extraction, configuration.root.measures)
    with found.each():
        check_search(configuration, found.lines)
    found.stop()
    return len(tasks) + len(cells)
