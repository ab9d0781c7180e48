"""A run's code version covers exactly the modules that the run uses."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from isoscope.base import built_in, code_closure
from isoscope.base import kind as of_studies
from isoscope.base.registry import OBJECTIVES
from isoscope.platform.config.declared import metrics_of

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
OBSERVED = {
    "freeze": {"after": 1, "until": None, "groups": ["enc.0.W1"]},
    "watch": {"layer": -1, "vectors": "first", "sample": 20, "clusters": 2},
    "frozen_head": {"most": 20},
    "allocation": {
        "sentences": 16,
        "folds": 2,
        "estimator": "first_order",
        "tolerance": None,
        "most_splits": 2,
        "dense": 1,
        "chords": 1,
        "heads": True,
        "minibatch": True,
        "parts": True,
    },
}
KINDS = (
    *built_in.FUSIONS.values(),
    *built_in.OBJECTIVES.values(),
    *built_in.PENALTIES.values(),
    *built_in.OBSERVERS.values(),
    *{*built_in.STARTS.values()},
)
CASES = [(kind, observer) for kind in (*built_in.PENALTIES, "none") for observer in (None, "watch")] + [
    ("none", "allocation"),
    ("none", "freeze"),
    ("none", "frozen_head"),
]
SECOND = [(kind, "watch") for kind in built_in.PENALTIES if kind != "persistent_entropy"]
"""Run with --exhaustive only."""
# Each run in a process of its own, forked from a process that has the libraries and no module of isoscope.
RUNS = """
import json, os, sys
from pathlib import Path
import accelerate, numba.experimental, pandas, pyarrow.dataset, pydantic, rich.progress, ruamel.yaml, scipy.stats
import sklearn.cluster, sklearn.linear_model, sklearn.neighbors, torch._dynamo, transformers.models.bert.modeling_bert

for number, options in enumerate(json.loads(sys.argv[1])):
    if os.fork() == 0:
        from training_runs import make_loop

        folder = Path(sys.argv[2], str(number))
        folder.mkdir()
        loop = make_loop(folder, epochs=1, **options)
        loop.fit()
        loop.test(1)
        own = [module.__file__ for name, module in sys.modules.items() if name.startswith("isoscope.")]
        (folder / "loaded.json").write_text(json.dumps([file for file in own if file]))
        os._exit(0)
    assert os.wait()[1] == 0
"""


@pytest.fixture(scope="module")
def loaded(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> dict[tuple[str, str | None], set[Path]]:
    """Return the package's modules that each run loads."""
    folder = tmp_path_factory.mktemp("runs")
    cases = [case for case in CASES if case not in SECOND or pytestconfig.getoption("--exhaustive")]
    options = [
        {"penalty": {"kind": kind} | PENALTIES.get(kind, {})} | ({observer: OBSERVED[observer]} if observer else {})
        for kind, observer in cases
    ]
    command = [sys.executable, "-c", RUNS, json.dumps(options), str(folder)]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lists = (json.loads((folder / str(number) / "loaded.json").read_text()) for number in range(len(cases)))
    return {case: {Path(file) for file in files} for case, files in zip(cases, lists, strict=True)}


@pytest.mark.parametrize("kind, observer", [
    pytest.param(*case, marks=pytest.mark.exhaustive if case in SECOND else ()) for case in CASES
])  # fmt: skip
def test_a_run_loads_nothing_outside_its_code_version(
    kind: str, observer: str | None, loaded: dict[tuple[str, str | None], set[Path]]
) -> None:
    names = built_in.modules(
        fusion="additive",
        objective="classification",
        penalty=kind,
        observers=[observer] if observer else [],
        encoder="scratch",
    )
    covered = code_closure.closure("train", names)
    found = loaded[kind, observer]
    assert not {file for file in found if not code_closure.inert(file) and file not in covered}
    module = code_closure.PACKAGE / "penalties" / f"{kind}.py"
    assert (module in found) == (kind != "none")
    for name, dotted in built_in.OBSERVERS.items():
        assert (code_closure.PACKAGE.joinpath(*dotted.split(".")[1:]).with_suffix(".py") in found) == (name == observer)


@pytest.mark.parametrize("name", KINDS)
def test_editing_what_a_run_does_not_use_leaves_it_alone(name: str) -> None:
    file = code_closure.PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")
    assert file.is_file()
    assert file in code_closure.closure("train", (name,))
    others = tuple(one for one in KINDS if one != name)
    in_others = [one for one in others if file in code_closure.closure("train", (one,))]
    assert not in_others
    assert code_closure.code_version("train", others) != code_closure.code_version("train", KINDS)
    assert code_closure.code_version("train", KINDS) == code_closure.code_version("train")


def test_an_analysis_covers_its_kind_and_every_fusion_of_the_checkpoints_that_it_loads() -> None:
    fusions = {code_closure.PACKAGE / "fusions" / f"{name}.py" for name in built_in.FUSIONS}
    for name, loads_models in (("isotropy", False), ("spaces", True)):
        covered = code_closure.closure("analyse", loads=of_studies.kind(name).modules)
        assert code_closure.PACKAGE / "studies" / name / "tables.py" in covered
        assert code_closure.PACKAGE / "studies/dynamics/tables.py" not in covered
        assert (fusions <= covered) == loads_models


def test_the_configuration_knows_the_metrics_that_an_objective_declares() -> None:
    for name, module in built_in.OBJECTIVES.items():
        kind = getattr(import_module(module), name.capitalize())
        assert OBJECTIVES[name].metrics == kind.metrics
        assert [*metrics_of(name, generated=True).values()] == [*kind.metrics, *kind.generated]
