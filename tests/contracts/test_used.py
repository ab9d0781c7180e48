"""A run's code version covers exactly the modules that the run uses."""

import subprocess
import sys
from pathlib import Path

import pytest

from isoscope import code
from isoscope.config.project import METRICS
from isoscope.objectives.classification import Classification

TESTS = Path(__file__).parents[1]
POINTS = {"layer": -1, "vectors": "first", "most": None}
WEIGHTED = {"weight": 0.1, "warmup": 0.0, "points": POINTS}
ENTROPY = {"clouds": "class", "selection": "all", "k": None, "in_cluster": 0.0}
PENALTIES = {
    "persistent_entropy": ENTROPY | WEIGHTED,
    "cosine": WEIGHTED,
    "spectrum": {"prior": "exponential", "rate": 0.05, "power": 1.0} | WEIGHTED,
    "isoscore": {"zeta": 0.0, "reference": None} | WEIGHTED,
}
RUN = """
import sys
from pathlib import Path
from training_runs import make_loop

options = {options}
loop = make_loop(Path(sys.argv[1]), epochs=1, **options)
loop.fit()
loop.test(1)
print(*(module.__file__ for name, module in sys.modules.items() if name.startswith("isoscope.") and module.__file__))
"""


def loaded(folder: Path, **options: object) -> set[Path]:
    """Return the package's modules that a run loads, in a separate process."""
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(options=repr(options)), str(folder)],
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {Path(file) for file in done.stdout.splitlines()[-1].split()}


@pytest.mark.parametrize("kind", [*code.PENALTIES, "none"])
@pytest.mark.parametrize("watched", [False, True])
def test_a_run_loads_nothing_outside_its_code_version(kind: str, watched: bool, tmp_path: Path) -> None:
    watch = {"layer": -1, "vectors": "first", "sample": 20, "clusters": 2} if watched else None
    names = code.modules(objective="classification", penalty=kind, observers=code.observers(watched=watched))
    covered = code.closure("train", names)
    found = loaded(tmp_path, penalty={"kind": kind} | PENALTIES.get(kind, {}), watch=watch)
    assert not {file for file in found if not code.inert(file) and file not in covered}
    module = code.PACKAGE / "penalties" / f"{kind}.py"
    assert (module in found) == (kind != "none")


@pytest.mark.parametrize("name", code.EVERY)
def test_editing_what_a_run_does_not_use_leaves_it_alone(name: str) -> None:
    file = code.PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")
    assert file.is_file()
    assert file in code.closure("train", (name,))
    others = tuple(one for one in code.EVERY if one != name)
    in_others = [one for one in others if file in code.closure("train", (one,))]
    assert not in_others
    assert code.code_version("train", others) != code.code_version("train", code.EVERY)


def test_the_configuration_knows_the_metrics_that_an_objective_declares() -> None:
    assert {"classification": tuple(Classification.metrics)} == METRICS
    assert METRICS.keys() == code.OBJECTIVES.keys()
