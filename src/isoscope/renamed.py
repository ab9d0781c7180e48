"""Import modules by their former names, with a warning, for one version."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGES = {"corpora": "data", "analysis": "inside", "tracking": "runs"}
"""Renamed packages: former → new name. Their modules kept their names, except those in `MODULES`."""
MODULES = {
    "analysis.baselines": "studies.results",
    "analysis.cells": "inside.cloud",
    "analysis.comparison": "studies.arms",
    "analysis.confirmation": "search.confirmation",
    "analysis.confusion": "studies.results",
    "analysis.courses": "studies.curves",
    "analysis.curves": "studies.curves",
    "analysis.differences": "statistics.differences",
    "analysis.dynamics": "inside.sentence_tables",
    "analysis.embedding_space": "inside.block",
    "analysis.geometry": "inside.measures",
    "analysis.gradients": "inside.gradient_steadiness",
    "analysis.heads": "inside.attention_tables",
    "analysis.jackknife": "metrics.matrix_scores",
    "analysis.learning": "inside.probing_tables",
    "analysis.outputs": "outputs",
    "analysis.parquet": "data.parquet",
    "analysis.probing": "inside.probing_tables",
    "analysis.provenance": "search.outcomes",
    "analysis.rank_views": "inside.sentence_tables",
    "analysis.searches": "search.outcomes",
    "analysis.statistics": "statistics.paired",
    "analysis.tables": "studies.tables",
    "analysis.trials": "search.trials_table",
    "analysis.verdicts": "statistics.paired",
    "config.faults": "config.explain",
    "corpora.baselines": "data.manifest",
    "corpora.local": "data.files",
    "geometry.fourier": "geometry.kernels",
    "metrics.classification": "metrics.classification_scores",
    "models.generation": "models.fused",
    "objectives.protocol": "objectives",
    "penalties.clouds": "penalties.persistent_entropy",
    "search.children": "executor.child",
    "search.cluster": "executor.cluster",
    "search.live": "search.status",
    "search.pool": "executor.execute",
    "statistics.verdicts": "statistics.paired",
    "studies.classified": "studies.results",
    "studies.comparison": "studies.arms",
    "tracking.addresses": "mirror.fields",
    "tracking.follow": "mirror.follow",
    "tracking.mending": "runs.reconcile",
    "tracking.mirror": "mirror.replay",
    "tracking.mlflow": "mirror.mlflow",
    "tracking.plan": "mirror.fields",
    "tracking.publish": "runs.stored",
    "training.checkpoint": "training.resumption",
    "training.observers.posthoc": "training.anisotropy",
    "training.posthoc": "training.anisotropy",
}


def present(name: str) -> str | None:
    """Return the new dotted name below `isoscope` of a former name; None if it was not renamed."""
    package, _, module = name.partition(".")
    kept = f"{PACKAGES[package]}.{module}".rstrip(".") if package in PACKAGES else None
    return MODULES.get(name, kept)


class FormerNameFinder:
    """Finds a module by its former name and returns the renamed module.

    It has no base class from `importlib.abc`: that module imports `random`, which a random.py in the working folder
    would hide while that folder is first on the path (see `__main__.py`).
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("isoscope.") or present(name.removeprefix("isoscope.")) is None:
            return None
        loader: Any = self
        return ModuleSpec(name, loader, is_package=name.count(".") == 1)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        today = f"isoscope.{present(spec.name.removeprefix('isoscope.'))}"
        warnings.warn(f"{spec.name} is now {today}; version 0.2 removes the old name", FutureWarning, stacklevel=2)
        self.spec = (module := import_module(today)).__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own specification; its code has already run."""
        module.__spec__ = self.spec


def install() -> None:
    """Enable imports by former names."""
    sys.meta_path.insert(0, FormerNameFinder())  # before the file finder, which would load a second copy
