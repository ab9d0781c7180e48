"""`isoscope repro`: DVC's pipeline with this installation on its path, mirrored into MLflow as it goes."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from isoscope import paths
from isoscope.config.load import Configuration
from isoscope.config.tree import Override, flatten, parse_override, read_yaml, split_overrides
from isoscope.errors import InputError
from isoscope.guard import end_with_parent
from isoscope.runs.dvc_lock import free_dvc
from isoscope.stages.mirror import following


def repro(project: paths.Project, configuration: Configuration, words: Sequence[str]) -> int:
    """Run `dvc repro` with `words`, or `dvc exp run -S …` where there are overrides; returns the exit code.

    One process mirrors all records meanwhile. If this process is killed, DVC gets SIGTERM and its stage stops with it.
    """
    binary = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{binary}{os.pathsep}{os.environ.get('PATH', '')}",
        "DVC_NO_ANALYTICS": "1",
    }
    dvc = shutil.which("dvc", path=environment["PATH"])
    if dvc is None:
        raise InputError(f"dvc: not found beside {sys.executable} or on PATH; install the project with: make install")
    command = [dvc, "repro", *words]
    if configuration.overrides:
        settings = [part for one in configuration.overrides for part in ("-S", _for_dvc(one))]
        command = [dvc, "exp", "run", *settings, *words]
    free_dvc(project.folder)
    with following(project) as followed:
        child = subprocess.Popen(
            command,
            cwd=project.folder,
            env=environment | followed,
            preexec_fn=partial(end_with_parent, signal.SIGTERM),
            process_group=0,  # so that what is handed on to it has not reached it already
        )
        with _handed_on(child):
            code = child.wait()
    return code if code >= 0 else 128 - code


def located(texts: Sequence[str], configuration: Configuration) -> list[str]:
    """Each `name=value` of `-S` with the file that DVC has to change, where that is not params.yaml.

    It is the overlay, of those in use, in which the name stands. Raises `InputError` where several have it.
    """
    root, folder = configuration.root, configuration.folder
    used = {paths.overlay("task", task) for task in root.tasks}
    for study in root.studies.values():
        used |= {paths.overlay(axis, value) for axis, values in study.axes.items() for value in values}
    names = {file: flatten(read_yaml(folder, file)) for file in (paths.PARAMS, *sorted(used))}
    return [_located(one, names) for text in texts for one in split_overrides(text)]


def _located(text: str, names: Mapping[Path, Mapping[str, object]]) -> str:
    override = parse_override(text)
    holders = [file for file, known in names.items() if override.name in known]
    if override.file is not None or not holders or holders == [paths.PARAMS]:
        return text
    if len(holders) > 1:
        choices = " or ".join(f"-S {file.as_posix()}:{override.name}=…" for file in holders)
        raise InputError(f"-S {override.name}: stands in several files; say which: {choices}")
    return f"{holders[0].as_posix()}:{text}"


def _for_dvc(override: Override) -> str:
    """`[file:]name=value` as `dvc exp run -S` takes it."""
    file = "" if override.file is None else f"{override.file}:"
    return f"{file}{override.name}={_dvc_value(override.value)}"


def _dvc_value(value: object) -> str:
    """A value as DVC's `-S` reads it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ",".join(_dvc_value(one) for one in value) + "]"
    return str(value)


@contextmanager
def _handed_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """SIGTERM goes on to the child, SIGINT to all of its group: DVC leaves it to its stage, and waits for that.

    So do stopping and going on by a terminal (Ctrl-Z, fg). This process waits for the child to end well.
    """

    def to_group(number: int, _: object) -> None:
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(child.pid, number)

    def pause(number: int, frame: object) -> None:
        to_group(number, frame)
        os.kill(os.getpid(), signal.SIGSTOP)

    handlers = {
        signal.SIGTERM: lambda *_: child.terminate(),
        signal.SIGINT: to_group,
        signal.SIGTSTP: pause,
        signal.SIGCONT: to_group,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
