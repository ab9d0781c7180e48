"""Projects whose studies are trained, for tests of what stages make of them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from isoscope.base import paths
from isoscope.base.paths import Project
from isoscope.platform.config.load import Configuration
from isoscope.platform.runs.follower import FOLLOWED
from isoscope.platform.stages.analyse import analyse
from isoscope.platform.stages.prepare import prepare
from isoscope.platform.stages.train import job, train

OVERLAY = "variants/task/reordered.yaml:data"
DATA = (f"{OVERLAY}.source.size=300", f"{OVERLAY}.tokenizer.vocab_size=200")
SMALL = {"hidden_size": 16, "heads": 2, "intermediate_size": 32}
TINY = (*DATA, *(f"model.encoder.{name}={size}" for name, size in SMALL.items()))
"""Overrides for little data and small models."""


class Trained(NamedTuple):
    """A project with the runs of its studies."""

    configuration: Configuration
    project: Project

    def analyse(self, name: str, studies: Iterable[str], asked: Any = None) -> Path:
        """Analyse a study, or a comparison of studies, whose section is `asked`; return its folder."""
        root = self.configuration.root
        sections = (root.analysis, root.reproduction, root.studies[name] if asked is None else asked, root.studies)
        arms = {study: [*self.configuration.arms(study)] for study in studies}
        return analyse(*sections, name=name, arms=arms, project=self.project)


@contextmanager
def prepared(folder: Path, configuration: Configuration) -> Iterator[Project]:
    """A project in `folder` with the task `reordered`, whose records no process sends to MLflow."""
    project = Project(folder, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLLOWED, "1")
        prepare(configuration.data("reordered"), task="reordered", project=project)
        yield project


@contextmanager
def trained(folder: Path, configuration: Configuration, studies: Iterable[str]) -> Iterator[Trained]:
    """Prepare the task in `folder` and train every cell of these studies."""
    with prepared(folder, configuration) as project:
        for study in studies:
            seeds = configuration.root.studies[study].seeds
            for (arm, cell), seed in product(configuration.cells(study).items(), seeds):
                work = job(configuration, cell, (study, arm, seed), project)
                train(work, output=folder / paths.trained(study, arm, seed))
        yield Trained(configuration, project)
