"""Time the start of commands: `isoscope --help`, the imports of each stage, `repro` of an up-to-date pipeline.

python benchmarks/startup.py [commands|imports|repro …] [--rounds 7] [--smoke]   prints Markdown; run it with
the virtual environment's python.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from timing import Timing, bound, conclude, interleave, table

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
ENVIRONMENT = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "DVC_NO_ANALYTICS": "1"}


def run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def python(code: str) -> None:
    run(sys.executable, "-c", code)


def up_to_date() -> bool:
    """Return whether `dvc repro` has nothing to do."""
    done = subprocess.run([BIN / "dvc", "status", "--quiet"], cwd=ROOT, env=ENVIRONMENT, check=False)
    return done.returncode == 0


def milliseconds(timing: Timing, base: Timing | None = None) -> tuple[str, ...]:
    """Format minimum and median, and the minimum minus that of `base`."""
    beyond = () if base is None else (f"{1000 * (timing.least - base.least):.0f}",)
    return (f"{1000 * timing.least:.0f}", f"{1000 * timing.middle:.0f}", *beyond)


def commands(rounds: int, *, smoke: bool) -> str:
    """Time `isoscope --help`, an interpreter that does nothing, and another tool of this environment."""
    timings = interleave(
        {
            "python -c pass": lambda: python("pass"),
            "dvc --version": lambda: run("dvc", "--version"),
            "isoscope --help": lambda: run("isoscope", "--help"),
        },
        rounds,
        warm_up=0 if smoke else 1,
    )
    base, ratio = timings["python -c pass"], timings["isoscope --help"].least / timings["dvc --version"].least
    bound("`isoscope --help`, to `dvc --version`", ratio, 1.6)
    rows = [(f"`{name}`", *milliseconds(timing, base)) for name, timing in timings.items()]
    return table("Commands (ms)", ("command", "least", "median", "beyond python"), rows)


def imports(rounds: int, *, smoke: bool) -> str:
    """Time the imports of each stage and of transformers' Trainer, without garbage collection, as the CLI does."""
    stages = (
        ["prepare"] if smoke else sorted(one.stem for one in (ROOT / "src/isoscope/platform/stages").glob("[!_]*.py"))
    )
    modules = {"(nothing)": "pass"}
    modules |= {
        f"isoscope.platform.stages.{stage}": f"gc.disable(); import isoscope.platform.stages.{stage}"
        for stage in stages
    }
    if not smoke:
        modules |= {"torch": "import torch", "transformers.Trainer": "from transformers import Trainer"}
    code = "import gc, os; {}; os._exit(0)"  # skip the interpreter's clean-up
    cases = {name: lambda line=line: python(code.format(line)) for name, line in modules.items()}
    timings = interleave(cases, rounds, warm_up=0 if smoke else 1)
    if not smoke:
        peer = timings["transformers.Trainer"].least
        slowest = max(timing.least for name, timing in timings.items() if name.startswith("isoscope."))
        bound("imports of the slowest stage, to transformers' Trainer", slowest / peer, 0.8)
    rows = [(f"`{name}`", *milliseconds(timing, timings["(nothing)"])) for name, timing in timings.items()]
    return table("Imports, each in a process of its own (ms)", ("module", "least", "median", "beyond python"), rows)


def repro(rounds: int, *, smoke: bool) -> str:
    """Time `dvc repro` and `isoscope repro` with a pipeline that is up to date."""
    if not up_to_date():
        return "### Nothing to do\n\nNot measured: the pipeline is not up to date, `make run` first.\n"
    timings = interleave(
        {
            "dvc --version": lambda: run("dvc", "--version"),
            "dvc repro": lambda: run("dvc", "repro"),
            "isoscope repro": lambda: run("isoscope", "repro"),
        },
        rounds,
        warm_up=0 if smoke else 1,
    )
    start, plain, ours = timings["dvc --version"], timings["dvc repro"], timings["isoscope repro"]
    bound("`isoscope repro` with nothing to do, beyond DVC's start, to that", ours.least / start.least - 1, 8)
    rows = [(f"`{name}`", *milliseconds(timing, start)) for name, timing in timings.items()]
    shares = f"isoscope's share around `dvc repro`: {1000 * (ours.least - plain.least):.0f} ms.\n"
    return f"{table('Nothing to do (ms)', ('command', 'least', 'median', 'beyond DVC start'), rows)}\n{shares}"


MEASURES = {"commands": commands, "imports": imports, "repro": repro}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="*", help=f"which of {', '.join(MEASURES)} (default: all)")
    parser.add_argument("--rounds", type=int, default=7, help="how often each command runs (default: 7)")
    parser.add_argument("--smoke", action="store_true", help="test the script: one round, one stage")
    options = parser.parse_args()
    if options.smoke:
        options.rounds = 1
    if unknown := set(options.measures) - MEASURES.keys():
        parser.error(f"no measure {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    for name in options.measures or MEASURES:
        print(MEASURES[name](options.rounds, smoke=options.smoke), flush=True)
    conclude(smoke=options.smoke)


if __name__ == "__main__":
    main()
