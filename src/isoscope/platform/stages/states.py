"""A cell of stage `states@<study>`: extract the hidden states of a run, and measure them.

Two runs with a digest each, so that another measure extracts nothing again.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from isoscope import plugins
from isoscope.base import built_in, paths
from isoscope.base.atomic_files import sha256
from isoscope.base.errors import InputError
from isoscope.base.processes import StopSignal
from isoscope.base.workers import Spread, workers
from isoscope.platform.config.across_studies import check_measures
from isoscope.platform.config.project import Extraction, Measures
from isoscope.platform.outputs import Trained, epochs_by_update, read_output, weights_by_update
from isoscope.platform.runs.card import CARD
from isoscope.platform.runs.identity import Identity
from isoscope.platform.runs.output_files import CONFIG, best_epoch, read_metrics
from isoscope.platform.runs.prepared import check_trained_on, content_md5, read_manifest
from isoscope.platform.runs.provenance import dvc_md5, file_md5s, tree_md5
from isoscope.platform.runs.run import Run, carry_out
from isoscope.platform.runs.stored import check_published

SNAPSHOTS, GEOMETRY = "snapshots.json", "geometry.parquet"


class Cell(NamedTuple):
    """A cell of a study whose hidden states are extracted and measured."""

    study: str
    arm: str
    seed: int
    task: str
    project: paths.Project
    publish: bool
    """Whether to `data/hidden_states` and `data/measures`; else both stay in the store of runs."""
    stop: StopSignal
    find: bool = False
    """Whether results are only found."""

    @property
    def data(self) -> Path:
        """Folder of the prepared task."""
        return self.project.folder / paths.processed(self.task)

    @property
    def trained(self) -> Path:
        """Folder of the trained model."""
        return self.project.folder / paths.trained(*self[:3])

    def run(self, stage: str, params: dict[str, Any], read: Callable[[], dict[str, str]], **known: Any) -> Run:
        """Return the run of a stage over this cell; `read` hashes its inputs, `known`: further fields of `Identity`."""
        names: dict[str, Any] = {"study": self.study, "arm": self.arm, "seed": self.seed, "task": self.task}
        identity = Identity(stage=stage, **names, axes={}, params=params, inputs=read(), **known)
        return Run(self.project, identity, inputs=read)

    def carry(
        self, run: Run, place: Callable[[str, str, int], Path], work: Callable[[Callable[[], None]], None], **about: Any
    ) -> Path | None:
        """Do the `work` of a run unless it is finished; return its folder, None if it is not found finished.

        `work` calls its argument between parts, which raises after a signal. `about`: of `carry_out`.
        """

        def do(finished: bool) -> None:
            if not finished:
                work(partial(self.stop.check, f"{run.identity.title}: stopped; run the same command to go on"))
                run.complete()

        output = self.project.folder / place(*self[:3]) if self.publish else None
        return carry_out(run, None if self.find else do, stop=self.stop, output=output, **about)


def states(extraction: Extraction, measures: Measures, cell: Cell, *, processes: int | None = None) -> Path | None:
    """Extract the hidden states of a finished run and measure them, resume, or find both done. Return the tables.

    None: they are not done, and the cell is only to be found. `processes`: replaces `measures.processes`.

    Every value of the table `geometry` is also a metric of the record, such as `geometry/layer_07/first/avg_sim` at its
    step. Raises `InputError` if the run or its task is missing, `StoppedError` after a signal.
    """
    again = f"isoscope train {cell.study} {cell.arm} --seed {cell.seed}"
    if not (cell.trained / CONFIG).is_file():
        raise InputError(f"{cell.trained}: does not exist yet; run: {again}")
    check_measures(extraction, measures)
    read_manifest(cell.project, cell.task)
    of_training = read_output(cell.trained).run
    check_trained_on(of_training.inputs, cell.project, cell.task, paths.trained(*cell[:3]), again)
    check_published(cell.project, cell.trained)
    science = {stage: built_in.load(built_in.STAGES, stage) for stage in ("extract", "measure")}
    with ExitStack() as stack:
        with threadpool_limits(measures.threads):
            if not cell.find:
                science["extract"].check_device(measures.device, key="measures.device")
            # Forked before torch computes: its threads do not survive a fork.
            count = 1 if measures.device == "cuda" else processes or measures.processes
            several = workers(count, key="measures.processes")
            spread = None if cell.find else stack.enter_context(several)
        run, folder = _extracted(science["extract"], cell, extraction, of_training)
        return None if folder is None else _measured(science["measure"], cell, measures, run.digest, folder, spread)


def _extracted(science: ModuleType, cell: Cell, extraction: Extraction, trained: Trained) -> tuple[Run, Path | None]:
    """Extract the hidden states, or find them; return their run and their folder, None if they are not done."""
    files: dict[str, Path] = science.files_of(extraction, cell.data, cell.project.folder)

    def read() -> dict[str, str]:
        # Neither the text of a model card nor the study's name, in config.yaml, changes a hidden state.
        found = {"model": tree_md5(file_md5s(cell.trained, leave_out={CARD, CONFIG})), "data": content_md5(cell.data)}
        return found | {name: sha256(file) for name, file in files.items()}

    by_path = {one.relative_to(cell.project.folder).as_posix(): dvc_md5(one) for one in (cell.trained, cell.data)}
    by_path |= {"/".join(file.parts[-2:]): sha256(file) for file in files.values()}
    params = {"extraction": extraction.model_dump(mode="json")}
    named = by_path | {"trained by": trained.digest}
    run = cell.run("extract", params, read, input_paths=named, plugins=trained.plugins)

    def work(watch: Callable[[], None]) -> None:
        run.begin(**science.environment(extraction))
        chosen = science.extract(
            run.work,
            extraction,
            science.snapshots_of(*kept_weights(cell.trained), every=extraction.every),
            trained=cell.trained,
            data=cell.data,
            files=files,
            seed=cell.seed,
            key=run.digest,
            title=f"{run.identity.title}: hidden states",
            watch=watch,
        )
        run.record.metric("probe/sentences", len(chosen.rows), step=0)
        run.record.metric("probe/words", len(chosen.words.text), step=0)

    about: dict[str, Any] = {"points": lambda _: [], "source": SNAPSHOTS, "facts": _facts}
    return run, cell.carry(run, paths.extracted, work, **about)


def _measured(
    science: ModuleType, cell: Cell, measures: Measures, extracted: str, states: Path, spread: Spread | None
) -> Path | None:
    """Measure the hidden states in a folder, or find them measured; return the folder of the tables.

    `extracted`: digest of their run. `spread`: as for `workers`; None: only find them.
    """

    def read() -> dict[str, str]:
        # Not as published: config.yaml has the study's name, and a stored output has a manifest.
        own = tree_md5(file_md5s(states, leave_out={CONFIG, "manifest.json"}))
        return {"states": own, "data": content_md5(cell.data)}

    used = [plugins.MEASURES.own[one] for one in measures.names if one in plugins.MEASURES.own]
    params = {"measures": measures.model_dump(mode="json")}
    of_plugins = {one.file.name: plugins.digest(one.file) for one in used}
    run = cell.run("measure", params, read, input_paths={"extracted by": extracted}, plugins=of_plugins)

    def work(watch: Callable[[], None]) -> None:
        run.begin(device=measures.device, threads=measures.threads, precision="fp64")
        given = science.MeasureInputs(states, run.identity.inputs["states"], cell.data, measures)
        at = {"title": run.identity.title, "metric": run.record.metric}
        science.measure(run.work, given, **at, spread=spread, watch=watch)

    about = {"points": science.stored_points, "source": GEOMETRY, "facts": lambda _: _facts(states)}
    with threadpool_limits(measures.threads):
        return cell.carry(run, paths.measured, work, **about)


def kept_weights(trained: Path) -> tuple[dict[int, Path], dict[int, int], int | None]:
    """Return what a finished run kept: update → folder of weights, update → epoch, and the chosen epoch."""
    if not (weights := weights_by_update(trained)):
        raise InputError(f"{trained}: has neither snapshots nor checkpoints; train this run again")
    return weights, epochs_by_update(trained), best_epoch(read_metrics(trained))


def _facts(states: Path) -> dict[str, Any]:
    """Return the facts of a probe set, for config.yaml."""
    return {"probe": json.loads((states / SNAPSHOTS).read_text("utf-8"))["facts"]}
