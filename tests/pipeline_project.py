"""A git and DVC repository from the checkout's files, with a study of seconds, and commands in it."""

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any, NamedTuple

import psutil

import warm
from isoscope.platform.config.profiles import laid_over
from isoscope.platform.config.tree import parse_yaml, read_yaml
from isoscope.platform.runs.follower import FOLLOWED
from isoscope.platform.runs.lines import RunRecord
from isoscope.platform.runs.record import read

ROOT = Path(__file__).parents[1]
BINARIES = Path(sys.executable).parent
ARMS = ("additive", "conv2d")
# Words of `accelerate` that start isoscope on several processes, here two.
LAUNCH = ("launch", "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
TWO = (*LAUNCH, "--multi_gpu", "--num_processes", "2", "--main_process_port", "0", "-m", "isoscope")

# Two classes that differ in the order of two words; 200 sentences of 3 to 7 tokens.
TASK = """\
data:
  source:
    kind: local
    path: texts/order.jsonl
    columns: {sentence: text, label: class}
    splits: {train: train, validation: null, test: null}
    held_out: 0.2
    seed: 0
    licence: CC0-1.0
"""
PROFILE = """\
tasks: [tiny]
studies:
  fusion:
    kind: fusion
    task: tiny
    settings: []
    axes:
      fusion: [additive, conv2d]
    seeds: [0]
  isotropy: null
  dynamics: null
  half_depth: null
  aligned: null
  hybrid: null
comparisons: {spaces: null, hybrids: null}
search: null
data:
  tokenizer:
    vocab_size: 100
model:
  encoder:
    layers: 1
    hidden_size: 16
    heads: 2
    intermediate_size: 32
    max_positions: 16
    init_std: 0.1
  max_length: 16
training:
  epochs: 4
  batch_size: 16
  learning_rate: 3e-2
  threads: 1
  snapshots:
    steps: none
    epochs: false
  log_every: 5
extraction:
  every: 1
  share: 1.0
  words: 60
  block: 12
  attended: 8
measures:
  names: [anisotropy, isoscore, similarity, classes]
  subsample: 16
  draws: 3
  probes:
    folds: 2
  perplexity: 5
  diagram: 30
  map: 30
  square: 20
  processes: 1
report:
  title: Order of two words
"""
INSIDE = ("states", "search")


def sentences() -> str:
    """The task as JSON lines."""
    first, second = ("ash", "birch", "cedar", "elm", "fir"), ("gold", "iron", "lead", "tin", "zinc")
    lines = []
    for number, (a, b) in enumerate((a, b) for a in first for b in second):
        for filler in ("", "the ", "near the ", "far from the "):
            for label, (x, y) in enumerate([(a, b), (b, a)]):
                ending = " now" * (number % 3)
                lines.append(f'{{"text": "{filler}{x} before {y}{ending}", "class": {label}}}\n')
    return "".join(lines)


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def ran(self) -> list[str]:
        """Stages that DVC ran, in order."""
        return re.findall(r"^Running stage '([^']+)':", self.out, re.MULTILINE)

    @property
    def restored(self) -> list[str]:
        """Stages that DVC put back from its run cache."""
        return re.findall(r"^Stage '([^']+)' is cached - skipping run", self.out, re.MULTILINE)


class Tracked(NamedTuple):
    """A run as MLflow holds it; `points` by metric as (step, value), `models` as their parameters."""

    name: str
    status: str
    params: dict[str, str]
    tags: dict[str, str]
    points: dict[str, list[tuple[int, float]]]
    datasets: dict[str, str]
    models: list[dict[str, str]]


class Project:
    """A project's folder. Commands run with the sources of `sources`, its own tree's unless another is given.

    A `cold` one starts every `isoscope` and `dvc` as a user's shell does; else those that are waited for, and what they
    start, are forked from a process that has the libraries (see warm.py). Without `mirrored`, nothing follows its runs
    to MLflow.
    """

    def __init__(self, folder: Path, *, sources: Path | None = None, cold: bool = False, mirrored: bool = True) -> None:
        self.folder = folder
        self.mirrored = mirrored
        self.sources = sources or folder / "src"
        self.binaries = BINARIES if cold else warm.binaries()

    @property
    def cold(self) -> "Project":
        """The same project, its commands started as a user's shell does."""
        return Project(self.folder, sources=self.sources, cold=True, mirrored=self.mirrored)

    def at(self, folder: Path) -> "Project":
        """A project elsewhere, with the same sources."""
        return Project(folder, sources=self.sources, mirrored=self.mirrored)

    def environment(self, **more: str) -> dict[str, str]:
        path = f"{BINARIES}{os.pathsep}{os.environ['PATH']}"
        followed = {} if self.mirrored else {FOLLOWED: "1"}
        return {**os.environ, "PATH": path, "PYTHONPATH": str(self.sources), **followed, **more}

    def run(self, *command: str, code: int | None = 0, stdin: str = "", **environment: str) -> Done:
        """Run a command to its end; `code` is the exit code it must have (None: any)."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment(**environment),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=1200,
        )
        assert code in (None, done.returncode), f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return Done(done.returncode, done.stdout, done.stderr)

    def isoscope(self, *words: str, code: int | None = 0, **environment: str) -> Done:
        return self.run(str(self.binaries / "isoscope"), *words, code=code, **self._first_on_path(environment))

    def shell(self, script: str) -> Done:
        """Run lines of a shell as a user types them, up to the first that fails."""
        return self.run("bash", "-euo", "pipefail", "-c", script, **self._first_on_path({}))

    def dvc(self, *words: str, code: int = 0, **environment: str) -> Done:
        return self.run(str(self.binaries / "dvc"), *words, code=code, **self._first_on_path(environment))

    def _first_on_path(self, environment: dict[str, str]) -> dict[str, str]:
        """So that DVC's stages too are those of `binaries`."""
        warm_path = "PYTHONPATH" in environment and self.binaries != BINARIES
        assert not warm_path, "what a path brings in has its turn only where the libraries are not there yet: use .cold"
        return {"PATH": f"{self.binaries}{os.pathsep}{self.environment()['PATH']}", **environment}

    def git(self, *words: str) -> str:
        return self.run("git", *words).out

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def refused(self, *words: str, **environment: str) -> str:
        """Return the only line with which `isoscope …` refuses its input."""
        done = self.isoscope(*words, code=2, **environment)
        (line,) = [one for one in done.err.splitlines() if not one.startswith("warning: ")]
        assert line.startswith("isoscope: ")
        assert done.out == ""
        return line

    def start(self, *words: str, program: str = "isoscope", **environment: str) -> subprocess.Popen[str]:
        """Start a program in a session of its own; its output goes to pipes."""
        return subprocess.Popen(
            [str(BINARIES / program), *words],
            cwd=self.folder,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def text(self, file: str) -> str:
        return (self.folder / file).read_text("utf-8")

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace the only occurrence of `old`."""
        text = self.text(file)
        assert text.count(old) == 1, f"{file}: {old!r} stands in {text.count(old)} places"
        (self.folder / file).write_text(text.replace(old, new), "utf-8")

    def lay(self, settings: str) -> None:
        """Lay settings over params.yaml, as a profile does."""
        text = laid_over(self.text("params.yaml"), parse_yaml(settings, "settings"))
        (self.folder / "params.yaml").write_text(text, "utf-8")

    def lock(self) -> dict[str, dict[str, Any]]:
        """Every stage's entry of dvc.lock."""
        return read_yaml(self.folder, Path("dvc.lock"))["stages"]

    def output(self, arm: str) -> Path:
        return self.folder / "models" / "fusion" / arm / "seed-0"

    def digest(self, arm: str) -> str:
        """The digest of the published run of an arm."""
        return str(read_yaml(self.output(arm), Path("config.yaml"))["digest"])

    def records(self) -> dict[str, RunRecord]:
        """Every record by its digest; no record has a point twice."""
        found = {path.stem: read(path) for path in sorted((self.folder / ".isoscope" / "records").glob("*.jsonl"))}
        for record in found.values():
            pairs = [(point.name, point.step) for point in record.metrics]
            assert len(pairs) == len(set(pairs))
        return found

    def points(self) -> int:
        """How many points all records have."""
        return sum(len(record.metrics) for record in self.records().values())

    def tracked(self, *, mirrored: bool = True) -> dict[str, Tracked]:
        """Every run in the project's MLflow database, by its digest; first `mirrored`: what a loaded machine left."""
        from isoscope.platform.mirror.mlflow import connect

        if mirrored:
            self.isoscope("mirror")

        client = connect(None, self.folder).client
        found = {}
        for experiment in client.search_experiments():
            models = client.search_logged_models([experiment.experiment_id])
            for run in client.search_runs([experiment.experiment_id]):
                digest = run.data.tags["isoscope.digest"]
                assert digest not in found, "one run per digest"
                histories = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
                found[digest] = Tracked(
                    run.info.run_name,
                    run.info.status,
                    run.data.params,
                    run.data.tags,
                    {name: [(point.step, point.value) for point in points] for name, points in histories.items()},
                    {item.dataset.name: item.dataset.digest for item in run.inputs.dataset_inputs},
                    [model.params for model in models if model.source_run_id == run.info.run_id],
                )
        client._tracking_client.store.engine.dispose()
        return found

    def copy(self, folder: Path, *, without: tuple[str, ...] = (), mirrored: bool = True) -> "Project":
        """The same project elsewhere, less the names at its top given in `without`."""
        shutil.copytree(self.folder, folder, symlinks=True, ignore=_at(self.folder, without))
        return Project(folder, mirrored=mirrored)


class Finished(NamedTuple):
    """A project after its first `isoscope repro`, committed; `first` is how that run ended."""

    project: Project
    first: Done


def _at(top: Path, names: tuple[str, ...]) -> Callable[[str, list[str]], set[str]]:
    return lambda folder, _: set(names) if Path(folder) == top else set()


LEFT_OUT = ("tests/", "benchmarks/", "reports/", "dvc.lock")


def copy_checkout(folder: Path) -> None:
    """Copy the working tree of the checkout: new files too, tests and results left out."""
    listed = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith(LEFT_OUT) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def committed(folder: Path, message: str) -> Project:
    """Return the files of a folder as a project with a first commit."""
    # Bytecode as after a first command, checked by hashes: a test may edit a file twice within a second.
    compileall.compile_dir(folder / "src", quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    project = Project(folder)
    project.git("init", "--quiet")
    project.commit(message)
    return project


def make(folder: Path, *, inside: bool = False) -> Project:
    """Return a checkout as a project, on the task and profile `tiny`.

    `inside`: with the stages that look inside the models; most tests are about what stands around them.
    """
    copy_checkout(folder)
    for name, text in {
        "texts/order.jsonl": sentences(),
        "variants/task/tiny.yaml": TASK,
        "profiles/tiny.yaml": PROFILE if inside else PROFILE.replace("kind: fusion", "kind: arms"),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    if not inside:
        kept = re.sub(
            rf"^  (?:{'|'.join(INSIDE)}):\n(?:(?:   .*)?\n)*", "", (folder / "dvc.yaml").read_text(), flags=re.M
        )
        for path in ("reports/search, ", '"data/hidden_states/${key}", ', '"data/measures/${key}", '):
            kept = kept.replace(path, "")
        assert not any(f"  {stage}:\n" in kept for stage in INSIDE)
        (folder / "dvc.yaml").write_text(kept, "utf-8")
    project = committed(folder, "A task of two words")
    project.isoscope("profile", "tiny")
    project.commit("The profile tiny")
    return project


def written(output: Path) -> dict[str, list[tuple[int, float]]]:
    """The points of a training output by metric, as (step, value)."""
    points: dict[str, list[tuple[int, float]]] = {}
    for line in (output / "metrics.jsonl").read_text("utf-8").splitlines():
        point = json.loads(line)
        points.setdefault(point["name"], []).append((point["step"], point["value"]))
    return points


def wait_for(what: Callable[[], object], seconds: float = 600.0) -> None:
    """Return as soon as `what()` is true; fail if it is not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def family(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """A process and all below it, as they are now."""
    return [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]


def strike(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    """Send a signal; nothing of the process may run on. Return its exit code and what it said on stderr."""
    everyone = family(process)
    process.send_signal(number)
    _, said = process.communicate(timeout=600)
    assert left(everyone) == []
    return process.returncode, said


def left(processes: Iterable[psutil.Process], seconds: float = 600.0) -> list[list[str]]:
    """Return the command lines of processes that still run after this many seconds; return as soon as none does."""
    _, alive = psutil.wait_procs(list(processes), timeout=seconds)
    found = []
    for one in alive:
        try:
            if one.status() != psutil.STATUS_ZOMBIE:
                found.append(one.cmdline())
        except psutil.NoSuchProcess:
            continue
    return found
