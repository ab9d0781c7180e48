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
from isoscope.platform.stages.train import train
from isoscope.platform.stages.training_job import job


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
def trained(folder: Path, configuration: Configuration, studies: Iterable[str]) -> Iterator[Trained]:
    """Prepare the task `reordered` in `folder` and train every cell of these studies."""
    project = Project(folder, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLLOWED, "1")  # no process that sends the records to MLflow
        prepare(configuration.data("reordered"), task="reordered", project=project)
        for study in studies:
            seeds = configuration.root.studies[study].seeds
            for (arm, cell), seed in product(configuration.cells(study).items(), seeds):
                work = job(configuration, cell, (study, arm, seed), project)
                train(work, output=folder / paths.trained(study, arm, seed))
        yield Trained(configuration, project)
