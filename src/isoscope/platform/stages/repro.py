"""`isoscope repro`: run DVC's pipeline with this installation on PATH, and mirror it into MLflow meanwhile."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.base.processes import end_with_parent
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.new_project import renew
from isoscope.platform.config.overrides import parse_override, split_overrides
from isoscope.platform.config.tree import flatten, read_yaml
from isoscope.platform.runs.locks import check_locks
from isoscope.platform.runs.upkeep import free_dvc
from isoscope.platform.stages.mirror import following


def repro(project: paths.Project, configuration: Configuration, words: Sequence[str]) -> int:
    """Run `dvc repro` with `words`, or `dvc exp run -S …` if there are overrides. Return the exit code: `exit_code`.

    A single process mirrors all records meanwhile. If this process is killed, DVC gets SIGTERM and stops its stage.
    """
    dvc, path = dvc_program()
    settings = [
        f"{f'{one.file}:' if one.file else ''}{one.name}={_quoted(one.value)}" for one in configuration.overrides
    ]
    set_by = (part for setting in settings for part in ("-S", setting))
    command = [dvc, *(["exp", "run", *set_by] if settings else ["repro"]), *words]
    if changed := renew(project.folder):
        print(f"isoscope: {paths.CODE}: other code than before: {', '.join(changed)}", file=sys.stderr)
    free_dvc(project.folder)
    # Without locks DVC would blame another process.
    check_locks(project.locks / "repro.lock")
    with following(project):
        child = subprocess.Popen(
            command,
            cwd=project.folder,
            env={**os.environ, "PATH": path, "DVC_NO_ANALYTICS": "1"},
            preexec_fn=partial(end_with_parent, signal.SIGTERM),
            process_group=0,  # else a terminal's signal reaches it twice
        )
        with _handed_on(child):
            code = child.wait()
    return exit_code(code)


def exit_code(code: int) -> int:
    """Return how a command of DVC ended, as all our commands say it: 0, 1 failure, 2 wrong input, 128 + n by a signal.

    `code`: DVC's. 252: interrupted; 254: wrong options; 250 to 255 otherwise: a failed stage, or DVC refuses.
    """
    if code < 0:
        return 128 - code
    return {252: 128 + signal.SIGINT, 254: 2}.get(code, 1 if code >= 250 else code)


def dvc_program() -> tuple[str, str]:
    """Return DVC's program, and the PATH with this installation first. Raises `InputError` if there is no DVC."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if (dvc := shutil.which("dvc", path=path)) is None:
        raise InputError(f"dvc: not found next to {sys.executable} or on PATH; install the project with: make install")
    return dvc, path


def dvc_status(folder: Path, *names: str) -> dict[str, list[Any]]:
    """Return stage → what has changed of it, as `dvc status --json` says of stages [default: of all].

    Raises `InputError` with DVC's own line if it refuses.
    """
    dvc, path = dvc_program()
    env = {**os.environ, "PATH": path, "DVC_NO_ANALYTICS": "1"}
    done = subprocess.run([dvc, "status", "--json", *names], cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"dvc status: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    return dict(json.loads(done.stdout))


def _quoted(value: Any) -> str:
    """Return a value as DVC's `-S` reads it: in a text, only quotes and backslashes before them are escaped."""
    if isinstance(value, str):
        return '"' + re.sub(r'(\\*)("|$)', lambda found: 2 * found[1] + found[2].replace('"', '\\"'), value) + '"'
    if isinstance(value, Mapping):  # Hydra takes no quotes around a key
        return f"{{{', '.join(f'{name}: {_quoted(one)}' for name, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_quoted, value))}]"
    return json.dumps(value, ensure_ascii=False, default=str)


def located(texts: Sequence[str], configuration: Configuration) -> list[str]:
    """Return each `name=value` of `-S` with the file that DVC has to change, unless that is params.yaml.

    The file is the overlay in use that sets the name. Raises `InputError` if several overlays set it.
    """
    root, folder = configuration.root, configuration.folder
    used = {paths.overlay("task", task) for task in root.tasks}
    for study in root.studies.values():
        used |= {paths.overlay(axis, value) for axis, values in study.axes.items() for value in values}
        used |= {paths.overlay("settings", one) for one in study.settings}
    used |= {paths.overlay("settings", one) for one in (root.search.settings if root.search else ())}
    names = {file: flatten(read_yaml(folder, file)) for file in (paths.PARAMS, *sorted(used))}
    return [_located(one, names) for text in texts for one in split_overrides(text)]


def _located(text: str, names: Mapping[Path, Mapping[str, object]]) -> str:
    override = parse_override(text)
    holders = [file for file, known in names.items() if override.name in known]
    if override.file is not None or not holders or holders == [paths.PARAMS]:
        return text
    if len(holders) > 1:
        choices = " or ".join(f"-S {file.as_posix()}:{override.name}=…" for file in holders)
        raise InputError(f"-S {override.name}: set in several files; choose {choices}")
    return f"{holders[0].as_posix()}:{text}"


@contextmanager
def _handed_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward SIGTERM to the child, and SIGINT to its whole group: DVC leaves SIGINT to its stage and waits for it.

    Forward a terminal's stop and continue (Ctrl-Z, fg) to the group, too. This process waits for the child to end.
    """

    def to_group(number: int, _: object) -> None:
        with suppress(ProcessLookupError):  # the child has just ended
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
