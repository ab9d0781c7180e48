"""The studies in params.yaml learn their tasks: no arm and no search default ends at chance, or at unigrams."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import binom

from isoscope.base.paths import Project
from isoscope.platform.config.load import Configuration, ResolvedCell
from isoscope.platform.stages.prepare import prepare
from isoscope.platform.stages.train import job
from isoscope.training.display import Mute
from isoscope.training.job import loop_of
from isoscope.training.progress import InterruptedRunError

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


class Shipped(NamedTuple):
    """An arm as committed, with its first seed."""

    name: str
    study: str
    arm: str
    seed: int
    cell: ResolvedCell


SOME = ("fusion-additive", "fusion-conv2d", "fusion-fft")
"""Trained in each test run; all others with --exhaustive."""


def shipped() -> Iterator[Shipped]:
    """Every arm of the studies that run, and the default of the search."""
    configuration = Configuration(ROOT)
    for study, settings in configuration.root.studies.items():
        for arm, cell in configuration.cells(study).items() if settings.seeds else ():
            yield Shipped(f"{study}-{arm}", study, arm, settings.seeds[0], cell)
    if search := configuration.root.search:
        cell = configuration.cell(search.study, search.arm, {}, search.settings)
        yield Shipped("search-default", search.study, search.arm, search.seeds[0], cell)


class Values(Mute):
    """The log of a run, of which only one metric is kept."""

    def __init__(self, name: str) -> None:
        self.name, self.values = name, list[float]()

    def metric(self, name: str, value: float, *, step: int, epoch: int | None = None) -> None:
        if name == self.name:
            self.values.append(value)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("shipped")
    configuration = Configuration(ROOT)
    for task in configuration.root.tasks:
        prepare(configuration.data(task), task=task, project=Project(folder, folder))
    return Project(folder, folder)


def test_those_of_each_run_are_shipped() -> None:
    assert {one.name for one in shipped()} > set(SOME)


CLASSIFIERS = [one for one in shipped() if one.cell.cell.objective.kind == "classification"]
LANGUAGE = [one for one in shipped() if one not in CLASSIFIERS]
BELOW = 0.2
"""Nats below the unigram loss in which the language models of params.yaml end."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("one", LANGUAGE, ids=lambda one: one.name)
def test_a_language_model_ends_below_the_unigram_loss(one: Shipped, project: Project, tmp_path: Path) -> None:
    work = job(Configuration(ROOT), one.cell, (one.study, one.arm, one.seed), project)
    log = Values("validation/loss")
    loop_of(work.job, log, Mute(), lambda: False, folder=tmp_path).fit()
    objective = one.cell.cell.objective
    found = json.loads((work.job.data / "manifest.json").read_text("utf-8"))["baselines"]
    unigram = found["unigram_masked" if objective.kind == "masked" else "unigram"]["validation"]
    side = "sentence1" if objective.kind in ("masked", "causal") else "sentence2"
    assert log.values[-1] < unigram[side]["loss"] - BELOW, log.values


@pytest.mark.parametrize("one", [
    pytest.param(one, id=one.name, marks=() if one.name in SOME else pytest.mark.exhaustive) for one in CLASSIFIERS
])  # fmt: skip
def test_it_ends_above_chance(one: Shipped, project: Project, tmp_path: Path) -> None:
    """Its accuracy is above the upper 95 % binomial bound of the larger class.

    Where the best epoch is kept, an epoch above the bound decides, and the rest is not trained.
    """
    work = job(Configuration(ROOT), one.cell, (one.study, one.arm, one.seed), project)
    log = Values("validation/accuracy")
    above = lambda: bool(log.values) and max(log.values) > bound  # noqa: E731
    best = work.job.parts.training.keep == "best"
    loop = loop_of(work.job, log, Mute(), lambda: best and above(), folder=tmp_path)
    labels = loop.objective.splits["validation"].labels
    bound = binom.ppf(0.975, len(labels), np.bincount(labels).max() / len(labels)) / len(labels)
    try:
        loop.fit()
    except InterruptedRunError:
        assert best
    assert above() if best else log.values[-1] > bound, log.values
