"""Runs of small models that start from other runs: language models, their hybrids, and what starts from these."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.base import paths
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.executor.placement import Placement
from isoscope.platform.stages.study_cells import Setup, train_starts, training_job
from isoscope.platform.stages.train import CellJob, train
from trained_projects import DATA, SMALL, prepared

ROOT = Path(__file__).parents[1]
FEW = {"epochs": 1, "budget": {"kind": "updates", "number": 4}, "select": "loss", "learning_rate": 3e-3}
STUDY = {"task": "reordered", "settings": [], "seeds": [0, 1], "kind": "arms"}
MAPS = ["identity", "procrustes", "ridge", "trained", "random", "itself", "other_seed"]


def tree() -> dict[str, Any]:
    """Small models of two objectives, their hybrids, and translation models that start from these."""
    found = read_yaml(ROOT, paths.PARAMS)
    found["tasks"], found["search"], found["comparisons"] = ["reordered"], None, {}
    found["model"]["encoder"] |= SMALL
    found["model"]["fusion"] = {"kind": "additive"}
    found["training"] |= FEW
    fusion = {"fusion": ["additive"]}
    found["studies"] = {
        "dynamics": STUDY | {"axes": {"objective": ["translation"]} | fusion},
        "half_depth": STUDY | {"axes": {"objective": ["masked"]} | fusion},
        "aligned": STUDY | {"settings": ["hybrid_half_depth"], "axes": {"objective": ["alignment"], "map": MAPS}},
        "hybrid": STUDY | {"axes": {"objective": ["translation"], "from": MAPS, "tuned": ["none", "all"]}},
    }
    return found


class Made(NamedTuple):
    setup: Setup

    def job(self, study: str, arm: str, seed: int = 0) -> CellJob:
        return training_job(self.setup, study, arm, seed)

    def trained(self, study: str, arm: str, seed: int = 0) -> Path:
        """Train a cell, and before it the runs that it starts from; return the folder."""
        train_starts(self.setup, [(study, arm, seed)], title="starts", workers=1, placement=Placement())
        return train(self.job(study, arm, seed), output=None)


@contextmanager
def made_in(folder: Path) -> Iterator[Made]:
    """A project in `folder` with the task prepared."""
    (folder / paths.PARAMS).write_text("# read by no test\n")
    with prepared(folder, Configuration(ROOT, DATA)) as project:
        yield Made(Setup(Configuration(ROOT, raw=tree()), project, "train"))
