"""Interface to MLflow. The only file that imports mlflow.

It uses `MlflowClient` and explicit run ids, never an active run: an inherited MLFLOW_RUN_ID (`mlflow run` exports it)
has no effect here.
"""

import glob
import json
import logging
import os
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock
from sqlalchemy import create_engine

from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.mirror.browsing import EXPERIMENT, VIEW_TAG, columns, view
from isoscope.platform.mirror.errors import SCHEMA, RefusedError, UnreachableError, trouble
from isoscope.platform.mirror.fields import DIGEST, LOCAL, Model, note_experiment, safe_name, told
from isoscope.platform.mirror.tracking_uri import default_uri, direct, located, sqlite_uri
from isoscope.platform.runs.lines import Dataset, Point
from isoscope.platform.runs.locks import file_lock
from isoscope.platform.runs.secrets import scrub

# No pickles, no telemetry, and a dead server is given up in seconds (MLflow's default: 7 retries of 120 s); missing
# lines are sent later.
os.environ["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] = "false"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
for _name, _value in {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}.items():
    os.environ.setdefault(_name, _value)

from mlflow import MlflowClient, entities  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402
from mlflow.models.utils import get_external_mlflow_model_spec  # noqa: E402
from mlflow.utils import get_results_from_paginated_fn  # noqa: E402

LOCK_SECONDS = 60


class Present:
    """Contents of a run in MLflow. `experiment`: id; `metrics`: names; `end`: Unix ms; `inputs`: (name, digest)."""

    def __init__(self, run: entities.Run) -> None:
        self.run_id: str = run.info.run_id
        self.experiment: str = run.info.experiment_id
        self.name: str = run.info.run_name
        self.store: str = run.info.artifact_uri
        self.params, self.tags, self.metrics = dict(run.data.params), dict(run.data.tags), set(run.data.metrics)
        self.status, self.end = run.info.status, run.info.end_time
        datasets = run.inputs.dataset_inputs if run.inputs else []
        self.inputs = {(item.dataset.name, item.dataset.digest) for item in datasets}
        self.outputs = {item.model_id for item in (run.outputs.model_outputs if run.outputs else [])}


class Server:
    """An MLflow server or database to mirror to. `root` holds the locks between processes.

    `parents`: digest → MLflow id of parent runs; `names`: id → name of the experiments that `find` has searched;
    `shown`: id → columns of its table. The methods raise MLflow's errors: call them within `trouble()`.
    """

    def __init__(self, uri: str, root: Path) -> None:
        self.uri, self.root = uri, root
        self.client = MlflowClient(uri)
        self.parents: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.shown: defaultdict[str, set[str]] = defaultdict(set)

    def experiment(self, name: str) -> str:
        """Return the id of the experiment that holds `name`, whatever its name in MLflow; create it if missing."""
        tagged = [item for item in self.experiments(entities.ViewType.ALL) if item.tags.get(EXPERIMENT) == name]
        tagged.sort(key=lambda item: item.lifecycle_stage != "active")
        present = tagged[0] if tagged else self.client.get_experiment_by_name(name)
        if present is None:
            place = (self.root / "mlartifacts" / name).as_uri() if direct(self.uri) else None
            try:
                present = self.client.get_experiment(self.client.create_experiment(name, artifact_location=place))
            except MlflowException:  # another process has created it meanwhile
                present = self.client.get_experiment_by_name(name)
                if present is None:
                    raise
        if present.lifecycle_stage != "active":
            cure = f"mlflow experiments restore --experiment-id {present.experiment_id}"
            raise RefusedError(f"experiment {name!r} was deleted in MLflow; restore it with: {cure}")
        if (holds := held_in(present)) != name:
            raise RefusedError(f"MLflow's experiment {name!r} holds the runs of {holds!r}; give it another name there")
        self.introduce(present, name)
        return str(present.experiment_id)

    def introduce(self, known: entities.Experiment, name: str) -> None:
        """Set what the pages need, and note the id, so that the report can link to the experiment."""
        if EXPERIMENT not in known.tags:
            self.client.set_experiment_tag(known.experiment_id, EXPERIMENT, name)
        self._show(known)
        uri = LOCAL if self.uri == default_uri(self.root, {}) else self.uri
        note_experiment(self.root, uri, name, known.experiment_id)

    def show(self, experiment: str, wanted: Iterable[str]) -> None:
        """Add columns, by MLflow's names for them, to an experiment's table of runs."""
        if new := [name for name in wanted if name not in self.shown[experiment]]:
            self._show(self.client.get_experiment(experiment), new)

    def _show(self, known: entities.Experiment, new: Iterable[str] = ()) -> None:
        before = known.tags.get(VIEW_TAG)
        wanted = view(shown := [*dict.fromkeys((*columns(before), *new))])
        if before != wanted:
            self.client.set_experiment_tag(known.experiment_id, VIEW_TAG, wanted)
        self.shown[known.experiment_id] = {*shown}

    def experiments(self, view: int = entities.ViewType.ACTIVE_ONLY) -> list[entities.Experiment]:
        """Return all experiments [default: that are not deleted]."""
        ask = partial(self.client.search_experiments, view)
        return list(get_results_from_paginated_fn(lambda most, at: ask(max_results=most, page_token=at), 1000))

    def find(self, experiments: Collection[str], digest: str) -> list[Present]:
        """Return the runs of a digest in `experiments` (names, also of experiments that were renamed in MLflow).

        At most one, unless processes without a common lock created more.
        """
        known = {item.experiment_id: item for item in self.experiments() if held_in(item) in experiments}
        self.names = {place: held_in(item) for place, item in known.items()}
        found = self.client.search_runs([*known], f"tags.`{DIGEST}` = '{digest}'") if known else []
        for place in {run.info.experiment_id for run in found}:
            self.introduce(known[place], self.names[place])
        return sorted(map(Present, found), key=lambda run: run.run_id)

    def told(self, digests: Collection[str]) -> dict[str, dict[str, str]]:
        """Return digest → what MLflow has of a run, as `fields.told` tells it of a record; nothing is written."""
        ask, places = self.client.search_runs, [item.experiment_id for item in self.experiments()]
        every = get_results_from_paginated_fn(lambda most, at: ask(places, max_results=most, page_token=at), 1000)
        history = self.client.get_metric_history
        return {
            digest: told(run.info.status, [one for name in run.data.metrics for one in history(run.info.run_id, name)])
            for run in every
            if (digest := run.data.tags.get(DIGEST)) in digests
        }

    def retire(self, run: Present) -> None:
        """Delete a run and its models (MLflow can restore them)."""
        for model in self.models(run.experiment, run.run_id):
            self.client.delete_logged_model(model.model_id)
        self.client.delete_run(run.run_id)

    def log(self, run_id: str, *, params: Iterable[tuple[str, str]] = (), tags: Iterable[tuple[str, str]] = ()) -> None:
        """Write parameters, which MLflow never changes afterwards, or set tags."""
        written = [entities.Param(*pair) for pair in params]
        self.client.log_batch(run_id, params=written, tags=[entities.RunTag(*pair) for pair in tags])

    def log_points(self, run_id: str, points: Sequence[Point], model_id: str | None = None) -> None:
        """Write metrics with their own times; with `model_id`, also as metrics of the model."""
        metrics = [entities.Metric(safe_name(p.name), p.value, p.t, p.step, model_id) for p in points]
        self.client.log_batch(run_id, metrics=metrics)

    def log_inputs(self, run_id: str, inputs: Mapping[tuple[str, str], Dataset]) -> None:
        """Write the data sets that the run read, by name and digest in MLflow."""
        datasets = []
        for key, item in inputs.items():
            profile = {} if item.rows is None else {"num_rows": item.rows}
            source = json.dumps({"uri": item.path})
            dataset = entities.Dataset(*key, "local", source, profile=json.dumps(profile))
            tags = [entities.InputTag("mlflow.data.context", item.context)]
            datasets.append(entities.DatasetInput(dataset, tags))
        self.client.log_inputs(run_id, datasets)

    def models(self, experiment: str, run_id: str) -> list[entities.LoggedModel]:
        """Return the logged models of a run, the first created first; usually one of each `Model.key`."""
        ask = partial(self.client.search_logged_models, [experiment], f"source_run_id = '{run_id}'")
        found = get_results_from_paginated_fn(lambda most, at: ask(max_results=most, page_token=at), 100)
        return sorted(found, key=lambda model: (model.creation_timestamp, model.model_id))

    def create_model(self, experiment: str, run_id: str, model: Model) -> entities.LoggedModel:
        """Create a logged model whose bytes are stored elsewhere; it is not READY yet."""
        flags = {**model.tags, "mlflow.model.isExternal": "true"}
        return self.client.create_logged_model(experiment, model.name, run_id, flags, model.params, "checkpoint")

    def finish_model(self, model: entities.LoggedModel) -> entities.LoggedModel:
        """Mark a model as READY with a description for registration, as `mlflow.create_external_model` does."""
        with tempfile.TemporaryDirectory() as folder:
            get_external_mlflow_model_spec(model).save(Path(folder) / "MLmodel")
            self.client.log_model_artifacts(model.model_id, folder)
        return self.client.finalize_logged_model(model.model_id, "READY")

    def log_output(self, run_id: str, model_id: str, step: int) -> None:
        """Log the model as an output of the run at a step."""
        self.client.log_outputs(run_id, [entities.LoggedModelOutput(model_id, step)])


def held_in(experiment: entities.Experiment) -> str:
    """Return the name under which isoscope knows an experiment: a person may have renamed it in MLflow's page."""
    return str(experiment.tags.get(EXPERIMENT, experiment.name))


def connect(uri: str | None, root: Path) -> Server:
    """Connect to MLflow; create the schema of a new database once, even if several processes connect together.

    A relative SQLite path is relative to `root`. A server (http) is not contacted yet. Raises `InputError` for an
    address that cannot be one (`located`); `UnreachableError`; `RefusedError`.
    """
    root = root.resolve()
    uri, database = located(uri or default_uri(root), root)
    # Silence sixty migration messages, and tracebacks of errors that are raised anyway.
    for name in ("alembic", "mlflow.store.db.utils"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with trouble(), lock(root, "schema") if direct(uri) else nullcontext():
            if database is not None and not database.exists():
                _make_whole(database)
            if direct(uri):
                _reach(uri)
            return Server(uri, root)
    except UnreachableError as error:
        if SCHEMA not in str(error):
            raise
        raise InputError(
            f"{scrub(uri)}: written by another version of MLflow ({version('mlflow')} is installed); back it up, then "
            f"run: mlflow db upgrade {scrub(uri)}; if that fails, a newer MLflow wrote it: install that version"
        ) from error


def retire(root: Path, runs: Mapping[str, Collection[str]]) -> None:
    """Delete runs in MLflow, by digest and names of experiments. Raises `InputError` if it does not answer or refuses.

    MLflow keeps what is deleted, and can restore it.
    """
    try:
        with trouble():
            server = connect(None, root)
            for one in [one for digest, names in runs.items() for one in server.find(names, digest)]:
                server.retire(one)
    except (UnreachableError, RefusedError) as error:
        raise InputError(f"MLflow at {scrub(default_uri(root))}: {error}; no run was removed") from None


def _make_whole(database: Path) -> None:
    """Create a SQLite file's schema in a temporary file: a kill during the migration would leave an unusable file."""
    fresh = database.with_name(f"{database.name}.making")
    database.parent.mkdir(parents=True, exist_ok=True)
    for left in database.parent.glob(f"{glob.escape(fresh.name)}*"):
        left.unlink()
    uri = sqlite_uri(fresh)
    _reach(uri)
    MlflowClient(uri)._tracking_client.store.engine.dispose()
    fresh.replace(database)


def _reach(uri: str) -> None:
    """Connect to a database once: MLflow would try ten times, in 200 seconds, before it says what is wrong."""
    engine = create_engine(uri)
    try:
        engine.connect().close()
    finally:
        engine.dispose()


def lock(root: Path, name: str, seconds: float = LOCK_SECONDS) -> FileLock:
    """Return a lock between the processes of the project in `root`, with a timeout of `seconds`."""
    return file_lock(Project(root, root).locks / f"mlflow-{name}.lock", seconds=seconds)
