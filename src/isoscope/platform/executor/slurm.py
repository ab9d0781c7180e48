"""Run processes as jobs of Slurm: arrays of plain commands. Slurm only places them; leases decide who owns a run."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from isoscope.base.atomic_files import write_text
from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.executor.child import CANCELLED, DONE, FAILED, KILLED, LOST, STOPPED, WRONG, Ending
from isoscope.platform.executor.execute import Place, Process
from isoscope.platform.executor.live_table import Progress
from isoscope.platform.executor.piece import Piece
from isoscope.platform.runs.follower import FOLLOWED

# Seconds between questions to Slurm; seconds until a shared file system shows an ended job's files; jobs of an array.
EVERY, SETTLED, MOST = 3.0, 15.0, 1000
SCRIPT, FACTS = Path(__file__).with_name("array.sh"), "submission.json"
# Other states of a job, such as COMPLETING, may still lead back into the queue.
OVER = r"BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|REVOKED|TIMEOUT"
# With them a command submits jobs, or ends with its parent: jobs do neither. Nor do they need a search's storage.
_OURS = {
    "DVC_STAGE",
    *(f"ISOSCOPE_{one}" for one in ("CLUSTER", "SLURM", "CPUS_PER_RUN", "GPUS_PER_RUN", "WITH_PARENT", "SEARCH")),
}
_AT = re.compile(r": epoch \d+, step (\d+)/(\d+)|resuming from step (\d+)/(\d+)")


class Submission(NamedTuple):
    """An array of jobs in a folder. `each`: runs per job. `detached`: submitted by a command that did not wait.

    Files of a run: its number with the suffix log, json (what it printed), node, code (its exit code), or stop.
    """

    folder: Path
    job: str
    each: int
    detached: bool
    runs: list[tuple[str, tuple[str, ...]]]

    def id_of(self, number: int) -> str:
        """Return the id of the job that does a run."""
        return f"{self.job}_{number // self.each}"

    def read(self, number: int, suffix: str) -> str:
        """Return the text of a file of a run; empty if it is missing."""
        path = self.folder / f"{number}.{suffix}"
        return path.read_text("utf-8", "replace").strip() if path.exists() else ""


def submissions(state: Path) -> list[Submission]:
    """Return the arrays that a project has submitted, oldest first."""
    found = [(path.parent, json.loads(path.read_text("utf-8"))) for path in sorted(state.glob(f"*/{FACTS}"))]
    return [Submission(folder, job, each, detached, runs) for folder, (job, each, detached, runs) in found]


def client(*command: str) -> str:
    """Return the answer of a client of Slurm. Raises `InputError` with its last words if it refuses or is missing."""
    environment = {name: value for name, value in os.environ.items() if name not in _OURS} | {FOLLOWED: "1"}
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        how = "run this on a machine of the cluster that submits jobs"
        raise InputError(f"--cluster slurm: no {command[0]} on PATH; {how}") from None
    if done.returncode:
        words = [line.partition("error: ")[2] or line for line in done.stderr.splitlines() if line.strip()]
        raise InputError(f"--cluster slurm: {command[0]}: {'; '.join(words[:3])} (exit code {done.returncode})")
    return done.stdout


def queue() -> dict[str, list[str]] | None:
    """Return state, node and reason of the user's jobs, also of those just ended; None if Slurm does not answer."""
    with suppress(InputError):
        text = client("squeue", "--me", "--array", "--states=all", "--noheader", "--format=%i|%T|%N|%r")
        return {name: rest for name, *rest in (line.split("|", 3) for line in text.splitlines())}
    return None


def listed(state: Path) -> Iterator[dict[str, str]]:
    """Yield every submitted run of a project: job, node, state, name, and the file of its log."""
    now = queue()
    for one in submissions(state):
        for number, (name, _) in enumerate(one.runs):
            code, node = one.read(number, "code"), one.read(number, "node")
            unseen = "lost" if now is not None else "started" if node else "submitted"
            seen, _, why = (now or {}).get(one.id_of(number), [unseen, "", ""])
            shown = {"": seen.lower(), "0": "done"}.get(code, f"ended with exit code {code}")
            shown += f" ({why})" if shown == "pending" else ""
            yield {
                "job": one.id_of(number),
                "node": node,
                "state": shown,
                "run": name,
                "log": str(one.folder / f"{number}.log"),
            }


def ended(state: Path) -> list[Path]:
    """Return what jobs have left that have all ended: the folders of their arrays, and what no other array names."""
    over = f"(?i:done|ended|lost|{OVER})"
    live = {Path(one["log"]).parent for one in listed(state) if not re.match(over, one["state"])}
    words = {word for one in submissions(state) if one.folder in live for _, words in one.runs for word in words}
    return [path for path in sorted(state.glob("*")) if path not in live and str(path) not in words]


class Slurm(Place):
    """A cluster with Slurm, which queues what has no room. Pieces that start together are jobs of one array.

    `options`: of sbatch; `each`: runs per job.
    """

    patience, usual, room = 60.0, inf, inf

    def __init__(self, options: Sequence[str], *, each: int, project: Project) -> None:
        self._options, self._each, self._project = options, each, project
        self.new, self.jobs, self._submitted, self._due = list[Job](), list[Job](), False, 0.0
        now = queue()
        if now is None:  # else runs that are under way would be submitted again
            raise InputError("--cluster slurm: squeue does not answer; try again when the cluster does")
        self._queue = now
        self._live = {
            tuple(words): (one, number)
            for one in submissions(project.slurm)
            for number, (_, words) in enumerate(one.runs)
            if not one.read(number, "code") and not re.match(f"{OVER}|$", self._queue.get(one.id_of(number), [""])[0])
        }

    def start(self, piece: Piece) -> "Job":
        """Submit a piece, or follow a job that does it already."""
        job = Job(self, piece, *self._live.pop(piece.arguments, (None, 0)))
        self.jobs.append(job)
        if job.submission is None:
            self.new.append(job)
            self._due = 0.0
        return job

    def shortage(self) -> str:
        """Return why jobs wait, as Slurm says it."""
        return (
            f"squeue says {', '.join(sorted({self._queue.get(job.id, ['', '', 'nothing'])[2] for job in self.jobs}))}"
        )

    def detach(self, pieces: Sequence[Piece]) -> list[str]:
        """Submit pieces without waiting for them; return a line for each, with the id of its job."""
        jobs = [self.start(piece) for piece in pieces]
        self._submit(detached=True)
        return [f"{job.piece.name}: job {job.id}" for job in jobs]

    def step(self) -> None:
        """Submit new jobs and ask Slurm about all, if it is time."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY
        self._submit()
        found = queue()
        self._queue = self._queue if found is None else found
        for job in self.jobs:
            job.update(self._queue.get(job.id, ["", "", ""]), known=found is not None)
        self.jobs = [job for job in self.jobs if job.ended is None]

    def _submit(self, *, detached: bool = False) -> None:
        """Submit what is new as arrays. Raises `InputError` if sbatch refuses the first; later it may be away."""
        while new := self.new[: MOST * self._each]:
            self._project.slurm.mkdir(parents=True, exist_ok=True)
            own = Path(mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=self._project.slurm))
            program = (sys.executable, "-P", "-m", "isoscope")
            if any("\n" in word for job in new for word in job.piece.arguments):
                raise InputError("--cluster slurm: an option has a line break; a job's command is one line")
            (own / "commands").write_text("".join(f"{shlex.join(program + job.piece.arguments)}\n" for job in new))
            words = (
                f"--array=0-{(len(new) - 1) // self._each}",
                *(f"--chdir={self._project.folder}", "--open-mode=append", f"--output={own}/%a.slurm"),
                *(*self._options, SCRIPT, own, self._each),
            )
            try:
                said = client("sbatch", "--parsable", *map(str, words))
            except InputError as error:
                if detached or not self._submitted:
                    raise
                new[0].lines.append(f"{error}; trying again")
                return
            made = Submission(
                folder=own,
                job=said.strip().partition(";")[0],
                each=self._each,
                detached=detached,
                runs=[(job.piece.name, job.piece.arguments) for job in new],
            )
            write_text(own / FACTS, json.dumps(made[1:]) + "\n", "note")
            for number, job in enumerate(new):
                job.submission, job.number = made, number
            self.new, self._submitted = self.new[len(new) :], True


class Job(Process):
    """A run in a job of Slurm; `began`: whether its node has started it.

    `submission`: the array; at first None, or an earlier array that does the piece as its run of this `number`.
    """

    def __init__(self, place: Slurm, piece: Piece, submission: Submission | None, number: int) -> None:
        self.piece, self.progress, self.began, self.signal = piece, Progress(), False, 0
        self.submission, self.number = submission, number
        self.ended: Ending | None = None
        self._place = place
        self._stays = submission is not None and not piece.alone  # another command's
        self.lines = [f"job {self.id} does it already; this command waits for it"] if submission else []
        self._read, self._rest, self._told, self._gone = 0, b"", -inf, inf

    @property
    def id(self) -> str:
        """Id of its job, such as 12_0."""
        return "" if self.submission is None else self.submission.id_of(self.number)

    def ending(self, seconds: float) -> Ending | None:
        """Return how it ended, after a wait of at most `seconds`; None while it runs."""
        time.sleep(seconds)
        if self.ended is None:
            self._place.step()
        return self.ended

    def said(self) -> list[str]:
        """Return the lines it has printed since the last call."""
        lines, self.lines = self.lines, []
        return lines

    def stop(self, number: int) -> None:
        """Send it a signal, at most every few seconds. A job that another command has detached continues."""
        if self.signal == number and time.monotonic() < self._told + EVERY:
            return
        self.signal, self._told = number, time.monotonic()
        self._place.new = [job for job in self._place.new if job is not self]
        if self.submission is None or self._stays:
            self.ended = Ending(STOPPED, "stopped")
            return
        (self.submission.folder / f"{self.number}.stop").write_text(signal.Signals(number).name.removeprefix("SIG"))
        beside = [job for job in self._place.jobs if job.id == self.id and job.signal != signal.SIGKILL]
        command = ("scancel", "--quiet", *(("--batch", "--signal=USR1") if beside else ()), self.id)
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # it may wait for seconds

    def update(self, seen: list[str], *, known: bool) -> None:
        """Note its state, node and reason in the queue (empty: it is not there), if that is `known`, and its files."""
        if self.submission is None:
            return
        self._listen(self.submission.folder / f"{self.number}.log")
        code, (state, node, _) = self.submission.read(self.number, "code"), seen
        self.began = state == "RUNNING" and bool(self.submission.read(self.number, "node"))
        if code:
            self.ended = self._result(int(code), self.submission)
        elif self.signal == signal.SIGKILL and state not in ("RUNNING", "COMPLETING"):
            self.ended = Ending(STOPPED, "cancelled")
        elif state == "PENDING" and self.signal:  # it took the signal for Slurm's
            self.stop(signal.SIGKILL)
        elif state == "CANCELLED":
            self.ended = Ending(CANCELLED, f"job {self.id} was cancelled; run the same command to resume")
        self._gone = min(self._gone, time.monotonic()) if known and re.match(f"{OVER}|$", state) else inf
        if self.ended is None and time.monotonic() - self._gone > SETTLED:
            how = f"({state or 'unknown to Slurm'}{node and f' on {node}'}); see {self.submission.folder}"
            self.ended = Ending(LOST, f"job {self.id} ended without a result {how}")

    def _listen(self, log: Path) -> None:
        """Read new lines of its log; lines about progress are not shown."""
        with suppress(FileNotFoundError), log.open("rb") as file:
            file.seek(self._read)
            new = file.read()
            self._read += len(new)
            *lines, self._rest = (self._rest + new).split(b"\n")
            for line in (one.decode("utf-8", "replace") for one in lines):
                if at := _AT.search(line):
                    done, total = map(int, filter(None, at.groups()))
                    self.progress.begin(done, total, done / total if at[3] else 0.0)
                if not at or not at[1]:
                    self.lines.append(line.removeprefix(f"{self.piece.name}: "))

    def _result(self, code: int, where: Submission) -> Ending:
        """Return how its command ended; its last line is the error."""
        if code == 0:
            found = json.loads(where.read(self.number, "json").rpartition("\n")[2])
            return Ending(DONE, found.get("folder") or found["folders"][0])
        kind = {2: WRONG, 129: STOPPED, 130: STOPPED, 143: STOPPED}.get(code, KILLED if code > 128 else FAILED)
        last = where.read(self.number, "log").rpartition("\n")[2] if kind in (FAILED, WRONG) else ""
        self.lines = [line for line in self.lines if line != last]
        return Ending(kind, last.removeprefix("isoscope: ") or f"job {self.id} ended with exit code {code}")
