"""The process that mirrors records into MLflow as they grow, started beside a command, and what it says at its end.

It is a process of its own so that nothing MLflow does can stop, slow or alter a run.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from isoscope import launched

FOLLOWED = "ISOSCOPE_FOLLOWED"  # set where a parent already mirrors the records
PARENT_RUN = "ISOSCOPE_PARENT_RUN"  # the MLflow run that `mlflow run` opened around the pipeline
LAST_TRY = 10.0
"""Seconds after the end of a command in which a follower still begins to send to an MLflow that was away."""
PATIENCE = 60.0
"""Seconds until a follower that still works is given up: on a busy machine its imports alone take many."""


def start(folder: Path, which: str) -> subprocess.Popen[bytes]:
    """Start one for the record of a digest, or for `all`, of the project in `folder`."""
    command = [sys.executable, "-P", "-m", "isoscope", "mirror", "--follow", which]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=launched.alone(),
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[bytes], *, patience: float) -> None:
    """Tell a follower to send what is left and end, and wait for that; warn only if MLflow then lacks something."""
    said = b""
    try:
        said, _ = process.communicate(timeout=patience)  # closes its stdin: the sign to end
    except subprocess.TimeoutExpired as error:
        said = error.output or b""
        process.kill()  # nothing of it is lost: the record holds all
        process.communicate()
    if (unsent := _unsent(said)) != 0:
        verb = "may lack" if unsent is None else "lacks"
        print(f"warning: MLflow {verb} part of what was recorded; `isoscope mirror` sends the rest", file=sys.stderr)


def own_stdout() -> int:
    """Keep stdout for the follower's last word; what libraries print goes to stderr, as nobody reads before the end."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def last_word(unsent: int, stdout: int) -> None:
    """Said by the follower when it has sent what it could: the lines that MLflow lacks."""
    with suppress(BrokenPipeError):
        os.write(stdout, json.dumps({"unsent": unsent}).encode() + b"\n")


def _unsent(said: bytes) -> int | None:
    try:
        return int(json.loads(said.splitlines()[-1])["unsent"])
    except (IndexError, ValueError, KeyError, TypeError):
        return None
