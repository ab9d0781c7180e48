"""What the scripts of the results pages read of a finished run: its task and its chosen checkpoint."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from collect import output_of

from isoscope.base.registry import OBJECTIVES
from isoscope.objectives import Objective, Place, Scored, Task
from isoscope.platform.outputs import Output
from isoscope.training.evaluation import evaluate
from isoscope.training.ranks import Ranks


class Chosen(NamedTuple):
    """A finished run, the folder of its chosen checkpoint, and its task as an objective."""

    output: Output
    folder: Path
    objective: Objective

    def on_test(self, model: Any, *places: Place) -> Scored:
        """Evaluate a model on the task's test split, with points at `places`."""
        return self.scored(model, "test", *places)

    def scored(self, model: Any, split: str, *places: Place) -> Scored:
        """Evaluate a model on a split, with points at `places`."""
        one = {"device": torch.device("cpu"), "ranks": Ranks(Accelerator(cpu=True))}
        return evaluate(model, self.objective, split, places=places, **one)


def chosen(run: Path) -> Chosen:
    """Read the run in the folder `run`; its task is prepared in the project at the current folder."""
    output = output_of(run)
    (folder,) = (run / "checkpoints").iterdir()
    data = Path("data/processed") / output.run.task
    manifest = json.loads((data / "manifest.json").read_text("utf-8"))
    asked = dict(output.params.get("objective", {"kind": "classification"}))
    task = Task(data, manifest, folder, output.params["model"]["max_length"], 1.0, 64, 1, 0)
    return Chosen(output, folder, OBJECTIVES[asked.pop("kind")].make(asked, task=task))
