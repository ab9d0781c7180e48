"""Run every benchmark whole, one after another: about two hours on two idle cores.

python benchmarks/every.py [NAME …] [--smoke]   prints the Markdown of each; exits with 1 if a benchmark fails or misses
a bound by more than half. `penalty.py` needs a package index. With ISOSCOPE_HUB, real text and MiniLM are measured too.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent
BENCHMARKS = tuple(sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("every", "timing", "gpu")))
OPTIONS = {"spaces": ("--full",)}
"""Options with which a benchmark measures all rows of its table."""


def run(name: str, *, smoke: bool) -> bool:
    """Return whether a benchmark ran and missed no bound by more than half."""
    print(f"## {name}.py\n", flush=True)
    began = time.monotonic()
    done = subprocess.run([sys.executable, FOLDER / f"{name}.py", *(("--smoke",) if smoke else OPTIONS.get(name, ()))])
    print(f"{name}.py: {(time.monotonic() - began) / 60:.1f} min, exit code {done.returncode}\n", flush=True)
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--smoke", action="store_true", help="only show that the scripts work")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    failed = [name for name in options.names or BENCHMARKS if not run(name, smoke=options.smoke)]
    if failed:
        sys.exit(f"failed, or missed a bound by more than half: {', '.join(failed)}")


if __name__ == "__main__":
    main()
