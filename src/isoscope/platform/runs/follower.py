"""Start and finish the follower: a process beside a command that mirrors growing records to MLflow.

It is a separate process, so that MLflow cannot stop, slow down or alter a run.
"""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

FOLLOWED = "ISOSCOPE_FOLLOWED"  # set if a parent process already mirrors the records
PARENT_RUN = "ISOSCOPE_PARENT_RUN"  # the MLflow run that `mlflow run` opened around the pipeline
# Seconds after the end of a command in which a follower retries an MLflow that was unreachable.
LAST_TRY = 10.0
# Seconds to wait for a follower that still works: on a busy machine its imports alone are slow.
PATIENCE = 60.0


def start(folder: Path, which: str) -> subprocess.Popen[bytes]:
    """Start a follower for the project in `folder`; `which`: a digest, or `all`."""
    rank = ("RANK", "WORLD_SIZE", "MASTER_PORT")  # the follower is no rank of the run
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "isoscope", "mirror", "--follow", which],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in rank},
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[bytes], *, patience: float) -> None:
    """Tell a follower to send the rest and end; wait for it. Warn if MLflow still lacks lines."""
    try:
        said, _ = process.communicate(timeout=patience)  # closes its stdin, which tells it to end
    except subprocess.TimeoutExpired as error:
        said = error.output or b""
        process.kill()  # loses nothing: the record holds everything
        process.communicate()
    last = said.split()[-1:]  # none, if it was killed before its last word
    if last != [b"0"]:
        verb = "lacks" if last else "may lack"
        print(f"warning: MLflow {verb} part of the record; send the rest with: isoscope mirror", file=sys.stderr)


def own_stdout() -> int:
    """Reserve stdout for the follower's last line; send library output to stderr, as stdout is read only at the end."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def last_word(unsent: int, stdout: int) -> None:
    """Print the number of lines that MLflow still lacks: the follower's last output."""
    with suppress(BrokenPipeError):
        os.write(stdout, f"{unsent}\n".encode())
