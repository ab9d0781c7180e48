"""Mirror records and restored outputs into MLflow: once, or while they grow; serve MLflow's pages."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isoscope.base.errors import InputError
from isoscope.base.paths import PARTS, Project
from isoscope.base.processes import die_with
from isoscope.platform.mirror.browsing import has_arms, runs_page
from isoscope.platform.mirror.fields import LOCAL, address, known_experiments, read_notes, write_notes
from isoscope.platform.runs import follower
from isoscope.platform.runs.follower import FOLLOWED
from isoscope.platform.runs.output_files import CONFIG, named_digest
from isoscope.platform.runs.secrets import scrub

if TYPE_CHECKING:
    from isoscope.platform.mirror.mlflow import Server
    from isoscope.platform.runs.lines import RunRecord

_NOTE = Path(".isoscope/mirrored.json")


def mirror_all(project: Project, uri: str | None) -> dict[str, Any]:
    """Send MLflow what it lacks of every record, and of every output without a record here. Return counts of new items.

    Each run stands alone: a line on stderr names a run that cannot be read or sent, and the others are sent. Then, or
    if MLflow cannot be reached, raises `InputError`.
    """
    from isoscope.platform.mirror.replay import mirror

    there = _sizes(project)
    records, unsent = _readable(project, there)
    sent = mirror(project.state, uri=uri, records=records)
    if away := [one for one in sent if one.away]:
        where = address(uri)
        raise InputError(
            f"MLflow does not answer at {where} ({away[0].error}); {len(away)} of {len(there)} runs were not sent. "
            "Start that server, or name another (--uri or MLFLOW_TRACKING_URI), then run: isoscope mirror"
        )
    titles = {record.run.digest: record.run.title for record in records if record.run}
    unsent |= {one.digest: f"{titles[one.digest]} ({one.digest[:12]}): {one.error}" for one in sent if one.error}
    note = project.state / _NOTE  # what was sent to an address, as in `_sizes`
    done = {digest: size for digest, size in there.items() if digest not in unsent}
    write_notes(note, read_notes(note) | {address(uri): done})
    for line in unsent.values():
        print(f"isoscope mirror: {line}", file=sys.stderr)
    if unsent:
        raise InputError(
            f"{len(unsent)} of {len(there)} runs were not sent to MLflow, each for the reason above; the others were. "
            "Remove the reasons, then run: isoscope mirror"
        )
    return {
        "uri": address(uri),
        "runs": len(sent),
        "points": sum(one.new["metrics"] for one in sent),
        "models": sum(one.new["models"] for one in sent),
    }


def all_records(project: Project) -> list["RunRecord"]:
    """Return the records of all runs, and what outputs without a record here restore. Warn about unreadable runs."""
    records, wrong = _readable(project, _sizes(project))
    sys.stderr.writelines(f"warning: {line}\n" for line in wrong.values())
    return records


def _readable(project: Project, there: Iterable[str]) -> tuple[list["RunRecord"], dict[str, str]]:
    """Return the records to send, parents first, and digest → reason of the runs that cannot be read."""
    records: list[RunRecord] = []
    wrong: dict[str, str] = {}
    outputs, committed = _outputs(project.folder), _committed_at(project.folder)
    for digest in there:
        try:
            record = _record(project, digest, outputs.get(digest), committed)
        except (InputError, OSError) as error:
            place = outputs.get(digest, project.records / f"{digest}.jsonl")
            wrong[digest] = str(error) if str(place) in str(error) else f"{place}: {error}"
        else:
            if record is not None:
                records.append(record)
    records.sort(key=lambda record: record.run is not None and record.run.parent is not None)
    return records, wrong


def _record(project: Project, digest: str, output: Path | None, committed: int) -> "RunRecord | None":
    """Return a run's record, or the record that its output restores; None, with a warning, if there is neither."""
    from isoscope.platform.runs.output_files import restored
    from isoscope.platform.runs.upkeep import mended

    path = project.records / f"{digest}.jsonl"
    record = mended(project, digest) if path.exists() else None
    if record is not None and record.run is not None:
        return record
    if output is not None:
        return restored(output, root=project.folder, t=committed)
    if record is not None and (record.damaged or (project.runs / digest / "output").is_dir()):
        print(f"warning: {path}: its line about the run is lost, so the run cannot be sent to MLflow", file=sys.stderr)
    return None


def follow_records(project: Project, uri: str | None, digest: str | None) -> None:
    """Mirror a record, or all records, while they grow, until stdin closes; with all records, also send what is left.

    MLflow takes seconds to import, so it is imported only when there is something to send.
    """
    parent = os.getppid()
    stdout = follower.own_stdout()
    die_with(parent)  # also while MLflow takes long to answer
    before = _sizes(project)
    ended, away, unsent = False, False, 0
    while digest is None and not ended and _sizes(project) == before:
        ended = _told_to_end(parent, 0.2)
    if not ended:
        from isoscope.platform.mirror.follow import follow

        digests = None if digest is None else {digest}
        end = follow(project.records, project.state, uri, until=lambda: _told_to_end(parent, 0), digests=digests)
        away, unsent = end.away, sum(end.unsent.values())
    # What was last sent to this address, as in `_sizes`; nothing if the local database is gone.
    gone = address(uri) == LOCAL and not (project.state / LOCAL).exists()
    mirrored = None if gone else read_notes(project.state / _NOTE).get(address(uri))
    if digest is None and _sizes(project) != mirrored:
        try:
            mirror_all(project, uri)
            unsent = 0
            if away:
                print("isoscope mirror: MLflow is back", file=sys.stderr)
        except InputError as error:
            unsent = max(unsent, 1)
            print(f"isoscope mirror: {error}", file=sys.stderr)
    follower.last_word(unsent, stdout)


@contextmanager
def following(project: Project) -> Iterator[None]:
    """Run a process that mirrors all records meanwhile: of this process, its children and the pipeline's stages.

    If such a process runs already, start none: two would write the same data at the same time.
    """
    if os.environ.get(FOLLOWED):
        yield
        return
    process = follower.start(project.folder, "all")
    os.environ[FOLLOWED] = "1"
    try:
        yield
    finally:
        del os.environ[FOLLOWED]
        follower.finish(process, patience=follower.PATIENCE)


def serve(project: Project, port: int) -> int:
    """Serve MLflow's pages for this project on 127.0.0.1 until stopped, and print the address of each experiment.

    Return the server's exit code.
    """
    from isoscope.platform.mirror.errors import RefusedError, UnreachableError
    from isoscope.platform.mirror.mlflow import connect
    from isoscope.platform.mirror.tracking_uri import default_uri

    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError as error:
            raise InputError(f"--port {port}: {error.strerror}; give another, such as {port + 1}") from None
    uri = default_uri(project.state)
    if uri.startswith("http"):
        raise InputError(f"MLFLOW_TRACKING_URI={scrub(uri)}: the runs are on that server; open it in a browser")
    try:
        store = connect(uri, project.state)
        shown = _introduced(store, project)
    except (UnreachableError, RefusedError) as error:
        raise InputError(f"{scrub(uri)}: cannot be used ({error}); correct MLFLOW_TRACKING_URI, or unset it") from None
    here = f"http://127.0.0.1:{port}"
    links = [f"  {name}: {runs_page(here, known, grouped=has_arms(name))}" for name, known in shown.items()]
    print("\n".join([f"MLflow on {here} (Ctrl-C stops it)", *links]), flush=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, lambda received, _: sys.exit(128 + received))
    server = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    environment = {
        **os.environ,
        "MLFLOW_BACKEND_STORE_URI": store.uri,  # no argument: any user may list those, and it may hold a password
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # The server's processes, uvicorn included (app-dir), must not import libraries from the project's folder.
        "PYTHONSAFEPATH": "1",
        "UVICORN_APP_DIR": str(project.runs.parent),
    }
    command = [sys.executable, "-P", "-c", _SERVER, str(os.getpid()), *server]
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        try:
            return process.wait()
        finally:  # MLflow's server is a child of the process started here, and would outlive it
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)


# MLflow's command, which ends with its parent, together with the server that it starts.
_SERVER = """
import sys
from isoscope.base.processes import die_with
die_with(int(sys.argv.pop(1)), group=True)
sys.argv[0] = "mlflow"
from mlflow.cli import cli
cli()
"""


def _introduced(store: "Server", project: Project) -> dict[str, str]:
    """Return name → id of the project's experiments, by name, after setting what their pages need."""
    from isoscope.platform.mirror.errors import trouble
    from isoscope.platform.mirror.mlflow import held_in

    noted = known_experiments(project.state, None)
    with trouble():
        shown = {held_in(one): one for one in store.experiments() if held_in(one) in noted}
        for name, one in shown.items():
            store.introduce(one, name)
    return {name: shown[name].experiment_id for name in sorted(shown)}


def _outputs(folder: Path) -> dict[str, Path]:
    """Return digest → published output in the working tree, of training runs and of analysed studies."""
    places = (*sorted(folder.glob("models/*/*/seed-*")), *sorted((folder / PARTS).glob("*")))
    named = ((named_digest(path / CONFIG), path) for path in places)
    return {digest: path for digest, path in named if digest}


def _sizes(project: Project) -> dict[str, int]:
    """Return digest → bytes of its record, 0 if only an output is here: what a mirror has to send."""
    records = {path.stem: path.stat().st_size for path in sorted(project.records.glob("*.jsonl"))}
    return dict.fromkeys(_outputs(project.folder), 0) | records


def _committed_at(folder: Path) -> int:
    """Return when the outputs' hashes were committed, in Unix milliseconds; if they were never committed, now."""
    command = ["git", "log", "-1", "--format=%ct", "--", "dvc.lock"]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    text = shown.stdout.strip()
    return int(text) * 1000 if text.isdigit() else time.time_ns() // 1_000_000


def _told_to_end(parent: int, seconds: float) -> bool:
    """Whether stdin closes within `seconds`. Exit this process if its parent was killed.

    Unsent data stay in the records: no process of a killed pipeline may continue.
    """
    ready, _, _ = select.select([sys.stdin.fileno()], [], [], seconds)
    if not ready or os.read(sys.stdin.fileno(), 1024):
        return False
    if os.getppid() != parent:
        raise SystemExit(0)
    return True
