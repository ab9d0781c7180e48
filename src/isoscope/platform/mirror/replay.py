"""Write records to MLflow: one run per record, only what is missing. Repeating gives the same result."""

import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isoscope.platform.mirror import browsing
from isoscope.platform.mirror import fields as plan
from isoscope.platform.mirror.errors import ConflictError, RefusedError, UnreachableError, storing, trouble
from isoscope.platform.mirror.mlflow import LOCK_SECONDS, Present, Server, connect, lock
from isoscope.platform.runs.lines import RUNNING, SEARCH, TRAIN, Run, RunRecord
from isoscope.platform.runs.provenance import file_md5
from isoscope.platform.runs.record import read

TRIES = 5
"""Of a run that another process writes at the same time."""
WAITS = tuple(0.1 * 2**look for look in range(6))
"""Seconds between looks at a model that another process creates at the same time."""


@dataclass
class MirrorResult:
    """What was written to MLflow: `new` counts by kind. `error`: why it stopped; `away`: no run can be sent now."""

    digest: str
    run_id: str | None = None
    new: Counter[str] = field(default_factory=Counter)
    error: str | None = None
    away: bool = False


class Mirror:
    """A record's run in MLflow. The first `send` compares everything with MLflow; later calls send only new lines."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._forget()

    def _forget(self) -> None:
        self._present: Present | None = None
        self._steps: defaultdict[str, set[int]] = defaultdict(set)
        self._points = 0
        self._models: dict[str | None, Any] = {}

    def send(self, record: RunRecord, deadline: float = float("inf")) -> MirrorResult:
        """Write what MLflow lacks of `record`; start no request after `deadline` (`time.monotonic`).

        Raises `UnreachableError` or `RefusedError`: sent data stay, and the next call compares everything again.
        """
        run = record.run
        if run is None:
            raise RefusedError("the record does not name its run: its first line is missing")
        sent = MirrorResult(run.digest)
        for left in reversed(range(TRIES)):
            compared_before = self._present is not None
            try:
                self._send(record, run, sent, deadline)
                break
            except RefusedError as error:
                self._forget()
                # Another process may have sent the same since.
                again = compared_before or isinstance(error, ConflictError)
                if not (again and left) or time.monotonic() > deadline:
                    raise
            except BaseException:
                self._forget()
                raise
        return sent

    def _send(self, record: RunRecord, run: Run, sent: MirrorResult, deadline: float) -> None:
        patience = min(LOCK_SECONDS, max(0.0, deadline - time.monotonic()))
        with trouble(), lock(self.server.root, run.digest[:16], patience):
            for what, count in self._requests(record, run, sent):
                sent.new[what] += count
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no time left after {what}")

    def _requests(self, record: RunRecord, run: Run, sent: MirrorResult) -> Iterator[tuple[str, int]]:
        """Yield the kind and number of what each request has written."""
        present = self._present = self._present or self._open(record, run, sent)
        if present is None:
            return
        sent.run_id = present.run_id
        yield "opening the run", 0
        # MLflow cannot change a parameter: send only missing parameters.
        missing = {name: text for name, text in plan.params(run).items() if name not in present.params}
        yield from self._send_pairs(present, "params", missing)
        # Written once, because a person may edit it.
        note = {} if browsing.NOTE in present.tags else {browsing.NOTE: browsing.description(record, run)}
        tags = plan.tags(record, run, self._changes(present, run))
        yield from self._send_tags(present, self._below(record, run) | note | tags, record)
        lacking = {key: item for key, item in plan.inputs(record).items() if key not in present.inputs}
        if lacking:
            self.server.log_inputs(present.run_id, lacking)
            present.inputs |= lacking.keys()
            yield "data sets", len(lacking)
        yield from self._send_points(present, record)
        # Before the files: their store may be another machine, which this machine cannot use.
        end = max(record.end.t, run.t) if record.end and record.status != RUNNING else None
        if record.status != present.status or (end is not None and end != present.end):
            if end is None:
                self.server.client.update_run(present.run_id, status=record.status)
            else:
                self.server.client.set_terminated(present.run_id, record.status, end)
            present.status, present.end = record.status, end
            yield "status", 0
        yield from self._send_models(present, plan.models(record, run))
        yield from self._send_artifacts(present, record)

    def _open(self, record: RunRecord, run: Run, sent: MirrorResult) -> Present | None:
        """Find the run by its digest, in any experiment of its study, or create it in its own.

        None for a restored record whose original is in MLflow. An original record replaces a run that was restored from
        an output; a training run that a study has published replaces the run in the search that began it.
        """
        home = browsing.experiment(record, run)
        found = self.server.find(browsing.experiments(record, run), run.digest)
        restored = [item for item in found if item.tags.get(plan.TIMESTAMPS) == plan.RESTORED]
        originals = [item for item in found if item not in restored]
        if record.restored and originals:
            sent.run_id = originals[0].run_id
            return None
        begun_by = run.tags.get(SEARCH)
        left = [item for item in found if self.server.names[item.experiment] == begun_by != home]
        if not record.restored:
            left += [item for item in restored if item not in left]
        for item in left:
            self.server.retire(item)
        candidates = [item for item in found if item not in left]
        present = self._only(candidates) if candidates else self._create(home, record, run, sent)
        for metric in {plan.safe_name(point.name) for point in record.metrics} & present.metrics:
            history = self.server.client.get_metric_history(present.run_id, metric)
            self._steps[metric] = {point.step for point in history}
        return present

    def _create(self, home: str, record: RunRecord, run: Run, sent: MirrorResult) -> Present:
        """Create the run with tags that find it; if another project has done so at the same time, keep the first."""
        place = self.server.experiment(home)
        tags = {plan.DIGEST: run.digest} | ({plan.TIMESTAMPS: plan.RESTORED} if record.restored else {})
        own = self.server.client.create_run(place, run.t, tags, self._name(run))
        found = self.server.find({home}, run.digest)
        kept = self._only([item for item in found if item.tags.get(plan.TIMESTAMPS) == tags.get(plan.TIMESTAMPS)])
        sent.new["runs"] = int(kept.run_id == own.info.run_id)
        return kept

    def _only(self, found: list[Present]) -> Present:
        """Return the first of the runs that projects without a common lock have created, and remove the others."""
        kept, *others = found
        for item in others:
            self.server.retire(item)
        return kept

    def _name(self, run: Run) -> str:
        """Return a run's name: its title, and the parameters that differ from its study's settings."""
        changes = browsing.written(browsing.changed(self.server.root, run))
        return plan.cut(f"{run.title} {changes}".strip(), plan.NAME_LENGTH)

    def _changes(self, present: Present, run: Run) -> str:
        """Return these parameters in words, as first written, since settings may change later; show them as columns."""
        known = present.tags.get(browsing.CHANGED)
        if known is None:
            changes = browsing.changed(self.server.root, run)
            self.server.show(present.experiment, [browsing.column("params", name) for name in changes])
            known = browsing.written(changes)
        return known

    def _below(self, record: RunRecord, run: Run) -> dict[str, str]:
        """Return the tag that links a run to its parent, if the parent is in MLflow."""
        parents = self.server.parents
        if run.parent is not None and run.parent not in parents:
            for item in self.server.find(browsing.experiments(record, run), run.parent)[:1]:
                parents[run.parent] = item.run_id
        return {"mlflow.parentRunId": parents[run.parent]} if run.parent in parents else {}

    def _send_pairs(self, present: Present, kind: str, lacking: dict[str, str]) -> Iterator[tuple[str, int]]:
        """Write `params` or `tags`."""
        for part in plan.chunks(lacking.items(), plan.PARAMS_PER_BATCH):
            self.server.log(present.run_id, **{kind: part})
            getattr(present, kind).update(part)
            yield kind, len(part)

    def _send_tags(self, present: Present, wanted: dict[str, str], record: RunRecord) -> Iterator[tuple[str, int]]:
        lacking = {name: text for name, text in wanted.items() if present.tags.get(name) != text}
        yield from self._send_pairs(present, "tags", lacking)
        if record.damaged:  # keep tags in MLflow that may come from a lost line
            return
        own = {name for name in present.tags if name.startswith(plan.OWN_TAGS) and not name.startswith(plan.ARTIFACT)}
        for name in sorted(own - set(wanted)):
            self.server.client.delete_tag(present.run_id, name)
            del present.tags[name]
            yield "tags", 1

    def _send_points(self, present: Present, record: RunRecord) -> Iterator[tuple[str, int]]:
        lacking = []
        for point in record.metrics[self._points :]:
            steps = self._steps[plan.safe_name(point.name)]
            if point.step not in steps:
                steps.add(point.step)
                lacking.append(point)
        for part in plan.chunks(lacking, plan.METRICS_PER_BATCH):
            self.server.log_points(present.run_id, part)
            yield "metrics", len(part)
        if record.run and record.run.stage == TRAIN:
            # Of the chosen epoch; MLflow shows the last value of a metric, so that of validation would be of another.
            scores = [browsing.column("metrics", one.name) for one in lacking if one.name.startswith("test/")]
            self.server.show(present.experiment, scores)
        self._points = len(record.metrics)

    def _send_models(self, present: Present, wanted: list[plan.Model]) -> Iterator[tuple[str, int]]:
        if any(item.key not in self._models for item in wanted):
            self._models = {}
            for one in self.server.models(present.experiment, present.run_id):
                key = one.model_id in present.outputs and one.tags.get(plan.CHECKPOINT)
                if key and self._models.setdefault(key, one) is not one:  # another project linked it at the same time
                    self.server.client.delete_logged_model(one.model_id)
        for item in wanted:
            known = self._models.get(item.key)
            model = known or self._model(present, item)
            if model.model_id not in present.outputs:
                self.server.log_output(present.run_id, model.model_id, item.step)
                present.outputs.add(model.model_id)
            if str(model.status) != "READY":
                with storing(model.artifact_location):
                    model = self.server.finish_model(model)
            linked = {metric.key for metric in model.metrics or []}
            # NaN is logged only with the run: MLflow shows a model's NaN as 0.
            lacking = [p for p in item.points if p.value == p.value and plan.safe_name(p.name) not in linked]
            if lacking:
                self.server.log_points(present.run_id, lacking, model.model_id)
                self._models = {}
            else:
                self._models[item.key] = model
            yield "models", known is None

    def _model(self, present: Present, item: plan.Model) -> Any:
        """Return the run's model of this key, or create it; projects that do so at the same time all keep one.

        A project that has not seen the others' models links its own. All keep a linked model, else the first.
        """
        own = kept = None
        for seconds in WAITS:
            models = self.server.models(present.experiment, present.run_id)
            same = [model for model in models if model.tags.get(plan.CHECKPOINT) == item.key]
            if not same:
                own = kept = self.server.create_model(present.experiment, present.run_id, item)
                continue
            present.outputs |= Present(self.server.client.get_run(present.run_id)).outputs
            linked = [model for model in same if model.model_id in present.outputs]
            kept = (linked or same)[0]
            if own and kept.model_id != own.model_id:
                self.server.client.delete_logged_model(own.model_id)
                own = None
            if linked or len(same) == 1:
                break
            time.sleep(seconds)  # until the others are linked or deleted
        return kept

    def _send_artifacts(self, present: Present, record: RunRecord) -> Iterator[tuple[str, int]]:
        for name, item in plan.artifacts(record).items():
            path, tag = Path(item.path), plan.safe_name(f"{plan.ARTIFACT}{name}")
            md5 = file_md5(path) if path.is_file() else None  # a missing file holds nothing up
            if md5 is None or present.tags.get(tag) == md5:
                continue
            folder, _, file = name.rpartition("/")
            with tempfile.TemporaryDirectory() as scratch:
                shutil.copyfile(path, Path(scratch) / file)
                with storing(present.store):
                    self.server.client.log_artifact(present.run_id, f"{scratch}/{file}", folder or None)
            self.server.log(present.run_id, tags=[(tag, md5)])
            present.tags[tag] = md5
            yield "artifacts", 1


def mirror(root: Path, *, uri: str | None = None, records: Iterable[RunRecord] | None = None) -> list[MirrorResult]:
    """Mirror `records` [default: all in `root`/.isoscope/records], each independently.

    Errors go to `MirrorResult.error` and are not raised. After MLflow is unreachable, the remaining records are not
    tried. Raises `InputError` for an invalid address, or if the server refuses user and password.
    """
    if records is None:
        records = [read(path) for path in sorted((root / ".isoscope" / "records").glob("*.jsonl"))]
    done: list[MirrorResult] = []
    server: Server | None = None
    away: str | None = None
    for record in records:
        digest = record.run.digest if record.run else "?"
        try:
            if away is not None:
                raise UnreachableError(away)
            server = server or connect(uri, root)
            done.append(Mirror(server).send(record))
        except (UnreachableError, RefusedError) as error:
            away = str(error) if isinstance(error, UnreachableError) else None
            done.append(MirrorResult(digest, error=str(error), away=away is not None))
    return done
