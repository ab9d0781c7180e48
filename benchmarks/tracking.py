"""Compare training speed with MLflow healthy, down, slow, full, read-only or failing, and without a mirror.

Each run is `isoscope train` in a separate project; runs are interleaved over several rounds. The result is tokens per
second from the record, median over epochs, as a ratio to the run without a mirror. Also measured: the time of one
logged metric on the training thread. Prints Markdown. Two rows need root to mount small disks; without root they are
left out with a message.
"""

import argparse
import contextlib
import http.server
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from timing import bound, conclude

ROOT = Path(__file__).parents[1]
RUN = ("train", "fusion", "additive", "--seed")
ISOSCOPE = [sys.executable, "-P", "-m", "isoscope"]


class Slow(http.server.BaseHTTPRequestHandler):
    """A server that answers 500, at once or after five seconds."""

    wait = 0.0

    def answer(self) -> None:
        time.sleep(self.wait)
        self.send_response(500)
        self.end_headers()

    do_GET = do_POST = do_PATCH = answer  # noqa: N815

    def log_message(self, *arguments: object) -> None: ...


@contextlib.contextmanager
def serving(wait: float) -> Iterator[str]:
    """Yield the address of such a server."""
    handler = type("Handler", (Slow,), {"wait": wait})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextlib.contextmanager
def dead() -> Iterator[str]:
    """Yield the address of a host that accepts the connection and never answers."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


@contextlib.contextmanager
def mounted(folder: Path, schema: Path, options: str) -> Iterator[str]:
    """Yield a database on a disk that is full or read-only."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], check=True, capture_output=True)
    try:
        shutil.copy(schema, folder / "mlflow.db")
        if options:
            subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)
        else:
            state = os.statvfs(folder)
            with (folder / "hog").open("wb") as hog:
                os.posix_fallocate(hog.fileno(), 0, state.f_bavail * state.f_frsize)
        yield f"sqlite:///{folder}/mlflow.db"
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def train(project: Path, seed: int, epochs: int, uri: str | None, *overrides: str) -> float:
    """Return tokens per second of one run, median over its epochs; `uri` None: no mirror."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "ISOSCOPE_OWN_TREE": "1"}
    environment |= {"ISOSCOPE_FOLLOWED": "1"} if uri is None else {"MLFLOW_TRACKING_URI": uri}
    words = [word for one in (f"training.epochs={epochs}", *overrides) for word in ("-S", one)]
    command = [*ISOSCOPE, *RUN, str(seed), *words, "--json"]
    done = subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True, text=True)
    digest = Path(json.loads(done.stdout)["folder"]).parent.name
    lines = map(json.loads, (project / ".isoscope/records" / f"{digest}.jsonl").read_text("utf-8").splitlines())
    speeds = [line["value"] for line in lines if line.get("name") == "speed/tokens_per_second"]
    return statistics.median(speeds)


def per_metric(count: int) -> float:
    """Return the seconds of one logged metric, median of five times `count`."""
    sys.path.insert(0, str(ROOT / "src"))
    from isoscope.platform.runs.record import Record

    times = []
    for turn in range(5):
        with tempfile.TemporaryDirectory() as folder, Record(Path(folder) / "r.jsonl") as record:
            record.run(digest="d", stage="train")
            began = time.perf_counter()
            for step in range(count):
                record.metric("step/loss", 0.1 * turn, step=step)
            times.append((time.perf_counter() - began) / count)
    return statistics.median(times)


def others(place: Path, stack: contextlib.ExitStack) -> dict[str, str]:
    """Return addresses of failing MLflow servers by kind of failure; `stack` ends them."""
    states = {
        "down: accepts the connection, never answers": stack.enter_context(dead()),
        "slow: 500 after 5 s": stack.enter_context(serving(5.0)),
        "answers 500": stack.enter_context(serving(0.0)),
    }
    try:
        states["out of space"] = stack.enter_context(mounted(place / "full", place / "schema.db", ""))
        states["read-only"] = stack.enter_context(mounted(place / "fixed", place / "schema.db", "ro"))
    except subprocess.CalledProcessError:
        print("Not measured: out of space, read-only (mounting needs root).\n")
    return states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--smoke", action="store_true", help="test the script: two states of MLflow, little text")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rounds = arguments.epochs = 1
    overrides = ("training.fraction=0.1",) if arguments.smoke else ()
    metric = per_metric(200 if arguments.smoke else 20_000)
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        project = Path(place) / "project"
        shutil.copytree(
            ROOT, project, ignore=shutil.ignore_patterns(".venv", ".git", ".isoscope", "models", "mlflow.db")
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "ISOSCOPE_OWN_TREE": "1"}
        subprocess.run(
            [*ISOSCOPE, "prepare", "sentiment"], cwd=project, env=environment, check=True, capture_output=True
        )
        if not arguments.smoke:
            train(project, 1000, 1, f"sqlite:///{place}/schema.db")  # creates the schema, warms the disk cache
        states: dict[str, str | None] = {
            "no mirror": None,
            "healthy (SQLite)": f"sqlite:///{place}/schema.db",
        }
        if not arguments.smoke:
            states |= others(Path(place), stack)
        speeds: dict[str, list[float]] = {state: [] for state in states}
        for turn in range(arguments.rounds):
            order = list(enumerate(states.items()))
            order = (
                order[turn % len(order) :] + order[: turn % len(order)]
            )  # so that drift of the machine affects all states equally
            for number, (state, uri) in order:
                speeds[state].append(train(project, 100 * turn + number, arguments.epochs, uri, *overrides))
                print(f"round {turn + 1}, {state}: {speeds[state][-1]:.0f} tokens/s", file=sys.stderr)
    base = speeds["no mirror"]
    print("| MLflow | tokens/s against a run without a mirror, best of each | each round |\n|---|---:|---|")
    for state, found in speeds.items():
        each = ", ".join(f"{one / other - 1:+.1%}" for one, other in zip(found, base, strict=True))
        print(f"| {state} | {max(found) / max(base) - 1:+.1%} | {each} |")
    bound("one logged metric on the training thread", 1e3 * metric, 0.05, "ms")
    for state in [one for one in speeds if one != "no mirror"]:
        ratio = statistics.median(one / other for one, other in zip(speeds[state], base, strict=True))
        bound(f"tokens/s with MLflow {state}, to no mirror", ratio, 0.99, least=True)
    print()
    conclude(smoke=arguments.smoke)


if __name__ == "__main__":
    main()
