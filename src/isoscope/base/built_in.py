"""Built-in kinds and the functions of stages, each named as text and loaded when a run uses it.

A module behind a name is part of the code version of the runs that use it, and of no other run.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

STAGES = {
    "prepare": "isoscope.data.task_files",
    "train": "isoscope.training.job",
    "extract": "isoscope.states.extract",
    "measure": "isoscope.states.measure",
    "states": "isoscope.states.extract",
    "analyse": "isoscope.platform.stages.analyse",
    "compare": "isoscope.platform.stages.analyse",
    "search": "isoscope.platform.stages.search",
    "report": "isoscope.platform.stages.report",
    "geometry": "isoscope.states.checkpoint_tables",
    "spaces": "isoscope.states.compared_checkpoints",
    "checkpoint_states": "isoscope.states.checkpoint_states",
    "export": "isoscope.models.exported",
    "convert": "isoscope.models.converted",
    "translate": "isoscope.models.translated",
    "evaluate": "isoscope.states.checkpoint_scores",
}
"""Stage → module of the function that makes its numbers. The code version of the stage starts there.

`states` consists of two runs, `extract` and `measure`.
"""
DIFFERENCES = "isoscope.states.weights_and_states"
"""Module whose `weights` and `representations` of two runs `isoscope diff` tells."""
GIVEN = {
    "train": "isoscope.training.given",
    "new": "isoscope.data.text_options",
    **dict.fromkeys(("geometry", "spaces", "translate", "evaluate"), "isoscope.states.asked"),
}
"""Command → module that says what it is given, without heavy libraries."""
FUSIONS = {
    "additive": "isoscope.fusions.additive",
    "scaled": "isoscope.fusions.scaled",
    "marian": "isoscope.fusions.marian",
    "conv2d": "isoscope.fusions.conv2d",
    "linear": "isoscope.fusions.linear",
    "fft": "isoscope.fusions.fft",
    "native": "isoscope.fusions.native",
}
OBJECTIVES = {
    "classification": "isoscope.objectives.classification",
    "regression": "isoscope.objectives.regression",
    "multilabel": "isoscope.objectives.multilabel",
    "masked": "isoscope.objectives.masked",
    "causal": "isoscope.objectives.causal",
    "translation": "isoscope.objectives.translation",
    "alignment": "isoscope.objectives.alignment",
}
METRICS = {
    "classification": "isoscope.metrics.matrix_scores",
    "regression": "isoscope.metrics.regression_scores",
    "multilabel": "isoscope.metrics.label_scores",
    **dict.fromkeys(("masked", "causal"), "isoscope.metrics.token_counts"),
    "translation": "isoscope.metrics.translation_scores",
    "alignment": "isoscope.metrics.alignment_distances",
}
"""Objective → module that declares its `METRICS`, and those of the test split alone as `GENERATED`. It is light: the
configuration reads it. Of an objective with predictions per row also `TARGET`, the column of its tasks; `options`, of
its section `objective`; `scores` of predictions, and `by_item`, the shares of the scores."""
WATCHED = "isoscope.training.anisotropy"
MEASURED = ("isoscope.geometry.isotropy", "isoscope.states.measures", "isoscope.states.similarity_scores", WATCHED)
"""Modules that declare the `METRICS` of measures and of `training.watch`."""
PENALTIES = {
    "persistent_entropy": "isoscope.penalties.persistent_entropy",
    "cosine": "isoscope.penalties.cosine",
    "spectrum": "isoscope.penalties.spectrum",
    "isoscore": "isoscope.penalties.isoscore",
}
MEASURES_OF_PAIRS = {"sts": "isoscope.states.similarity_scores"}
"""Measures of pairs of sentences that people scored."""
MEASURES = {
    **dict.fromkeys(
        ("anisotropy", "isoscore", "similarity", "intrinsic", "homology", "classes", "shape"),
        "isoscope.states.measures",
    ),
    **MEASURES_OF_PAIRS,
}
TRANSFORMS = dict.fromkeys(
    ("none", "centred", "all_but_the_top", "whitened", "standardised"), "isoscope.geometry.transforms"
)
"""Transform of a cloud, before it is measured → module of the function of this name."""
OBSERVERS = {
    "freeze": "isoscope.training.observers.freeze",  # first, so that the others see the gradients that it leaves
    "watch": "isoscope.training.observers.watch",
    "allocation": "isoscope.training.observers.lca",
    "slices": "isoscope.training.observers.slices",
    "frozen_head": "isoscope.training.observers.frozen_head",
}
"""Observers by their section of `training`, in the order of their calls and of their metrics."""
STARTS = dict.fromkeys(("run", "hybrid"), "isoscope.training.starts")
"""Kinds of `model.encoder` that start from other runs."""
PLAIN = "arms"
"""The kind of every study; of a study that compares its arms and no more, the only one."""
KINDS_OF_STUDIES = {
    file.parent.name: (f"isoscope.studies.{file.parent.name}", file.parent)
    for file in sorted(Path(__file__).parents[1].glob("studies/*/tables.py"))
}
"""Built-in ways to compare the arms of a study, or several studies: folders with tables. Name → package, folder."""
SHOWS = tuple(f"isoscope.studies.{kind}{part}" for kind in KINDS_OF_STUDIES for part in ("", ".views", ".claims"))
COMPARES = (*SHOWS, *(f"isoscope.studies.{kind}.tables" for kind in KINDS_OF_STUDIES))
LOADS = {
    "search": (STAGES["train"],),
    "states": (STAGES["measure"],),
    "analyse": COMPARES,
    "compare": COMPARES,
    "report": SHOWS,
}
"""Stages that run another stage's function, or may use every kind of study → the modules that they load by name."""


def load(registry: Mapping[str, str], kind: str) -> ModuleType:
    """Import and return the module of a stage's function."""
    return import_module(registry[kind])


def modules(*, fusion: str, objective: str, penalty: str, observers: Iterable[str], encoder: str) -> tuple[str, ...]:
    """Return the dotted names of the built-in modules that these choices use; a plugin's code has its own hash."""
    fusions = FUSIONS if encoder == "hybrid" else (fusion,)  # the parts of a hybrid keep theirs
    asked = [(OBJECTIVES, objective), (PENALTIES, penalty), (STARTS, encoder)]
    asked += [(FUSIONS, kind) for kind in fusions] + [(OBSERVERS, name) for name in observers]
    return tuple(sorted(registry[kind] for registry, kind in asked if kind in registry))
