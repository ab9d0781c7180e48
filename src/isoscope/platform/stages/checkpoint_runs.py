"""Log what a command finds of checkpoints: a run in MLflow for each, which names what it read by digests."""

import shlex
import sys
from collections.abc import Iterable
from typing import Any

from isoscope import plugins
from isoscope.base.paths import Project
from isoscope.base.processes import StopSignal
from isoscope.platform.mirror.browsing import COMMAND
from isoscope.platform.runs.identity import Identity
from isoscope.platform.runs.lines import FINISHED
from isoscope.platform.runs.run import Run, tracked
from isoscope.platform.stages.mirror import following


def log_runs(command: str, project: Project, runs: Iterable[Any]) -> None:
    """Log `runs` (`isoscope.states.checkpoint_scores.Logged`) in a project; a run that it has already stays as it is.

    A checkpoint of one of the project's runs is logged beside the tables of that run's study.
    """
    with StopSignal() as stop, following(project):
        for one in runs:
            _log(command, project, one, stop)


def _log(command: str, project: Project, one: Any, stop: StopSignal) -> None:
    own = one.of if one.folder.is_relative_to(project.folder) else {}
    identity = Identity(
        stage=command,
        **dict.fromkeys(("study", "arm", "seed", "task")) | own,
        axes={},
        params={command: dict(one.params)},
        inputs={role: digest for role, (_, digest) in one.inputs.items()},
        input_paths=dict(one.inputs.values()),
        plugins={fusion.file.name: plugins.digest(fusion.file) for fusion in plugins.FUSIONS.own.values()},
    )
    run = Run(project, identity, inputs=lambda: identity.inputs | {"checkpoint": one.digest()})
    run.tags[COMMAND] = shlex.join(["isoscope", *sys.argv[1:]])
    with tracked(run, stop):
        if run.record.before.status == FINISHED:
            return
        run.check_inputs()
        run.begin(device=one.params["device"], threads=one.params["threads"], precision="fp32")
        for name, value in one.metrics.items():
            run.record.metric(f"{command}/{name}", value, step=0)
        run.stop_sampling()
        run.record.end(FINISHED)
