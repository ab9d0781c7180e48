"""The science runs where the platform, its trackers and pydantic are missing."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PARTS = ("data", "fusions", "geometry", "metrics", "models", "objectives", "penalties", "training")
# A module of this name is missing, also for libraries that look whether it is there.
WITHOUT = """
import sys

for missing in ("isoscope.platform", "mlflow", "dvc", "optuna", "pydantic"):
    sys.modules[missing] = None
"""
IMPORTS = """
from importlib import import_module
from pkgutil import walk_packages

for part in sys.argv[2:]:
    package = import_module(f"isoscope.{part}")
    for module in walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)
        print(module.name)
"""
TRAINS = """
from pathlib import Path

from fusions import CONV2D
from isoscope.training.display import Mute
from isoscope.training.given import Job
from isoscope.training.job import Progressbar, train
from training_runs import ENCODER, SETTINGS, attributes, prepare


class Book(Mute):
    def begin(self, **environment):
        return []

    def resumed(self):
        pass


folder = Path(sys.argv[1])
place = {"layer": -1, "vectors": "first"}
entropy = {"kind": "persistent_entropy", "clouds": "class", "selection": "all", "k": None, "in_cluster": 0.0}
parts = {
    "model": {"encoder": ENCODER | {"kind": "scratch"}, "fusion": CONV2D, "max_length": 12},
    "objective": {"kind": "classification"},
    "penalty": entropy | {"weight": 0.1, "warmup": 0.0, "points": place | {"most": None}},
    "training": SETTINGS | {"epochs": 1, "watch": place | {"sample": 12, "clusters": 2}},
}
settings = attributes(parts)
settings.observers = {}
job = Job(
    parts=settings, plugins=False, seed=0, data=folder, manifest=prepare(folder), tokenizer=folder / "tokenizer",
    checkpoint=None, starts=dict, unchanged=lambda: None,
)
made = train(job, folder=folder, book=Book(), display=Progressbar("alone"), stop=lambda: False)
print(*{point["name"] for point in made.points.read()})
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What a process without the platform prints: modules that it imports, metrics of a model that it trains."""
    command = [sys.executable, "-c", WITHOUT + IMPORTS + TRAINS, str(tmp_path_factory.mktemp("alone")), *PARTS]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_every_module_of_the_science_imports_and_a_model_trains_without_the_platform(alone: list[list[str]]) -> None:
    *modules, metrics = alone
    assert {name.split(".")[1] for (name,) in modules} == {*PARTS}
    assert {"test/accuracy", "step/penalty", "validation/a_1", "fusion/moved"} <= {*metrics}
