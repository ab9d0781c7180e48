"""What stands before a stage of a study: a node with the same configuration, runs of equal versions, or nothing."""

import copy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from finished_runs import digest, write_run
from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.stages.study_cells import Setup
from isoscope.platform.stages.study_run import differing_versions
from tracked_runs import start

ROOT = Path(__file__).parents[3]


def sent(**changed: object) -> Setup:
    """Return the value as it arrives on a node (`copy` works like a pickle)."""
    configuration = Configuration(ROOT, ["training.epochs=2", "studies.fusion.seeds=[7]"])
    found = copy.copy(Setup(configuration, Project(ROOT, ROOT), "train"))
    assert "configuration" not in vars(found)
    vars(found).update(changed)
    return found


def test_a_node_reads_the_same_configuration() -> None:
    configuration = sent().configuration
    assert configuration.study("fusion").seeds == (7,)
    assert configuration.cell("fusion", "conv2d").cell.training.epochs == 2


NOWHERE = Path("/nowhere")


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"code": "other"}, "its isoscope has other code; install the same version"),
        ({"plugins": [NOWHERE / "none.py"]}, ".*none.py.*no such file"),
        ({"project": Project(NOWHERE, NOWHERE)}, "no project at .* at the same path"),
    ],
)
def test_what_a_node_lacks_is_named(changed: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=rf"^node \S+: {said}"):
        _ = sent(**changed).configuration


def trained(project: Project, arm: str, seed: int, **versions: str) -> Path:
    """A published run, and its record with an attempt under these versions."""
    output = write_run(project.folder / "models", arm, seed)
    made = {"python": "3.12.1", "torch": "2.9.0", **versions}
    with start(project.folder, digest=digest("fusion", arm, seed), environment=made, arm=arm, seed=seed) as record:
        record.end("FINISHED")
    return output


@pytest.mark.parametrize("name", ["torch", "numpy", "python", "tokenizers"])
def test_a_package_upgraded_between_the_runs_of_a_study_is_named(tmp_path: Path, name: str) -> None:
    """Threads and devices are no versions; those of a run without a record are not known."""
    project = Project(tmp_path, tmp_path)
    outputs = [trained(project, arm, 0, **{name: "1"}, threads=arm, device=arm) for arm in ("additive", "conv2d")]
    outputs.append(write_run(project.folder / "models", "scaled", 0))
    assert differing_versions(outputs, project) is None
    outputs.append(trained(project, "fft", 0, **{name: "2"}))
    line = f"{name} 1 in models/fusion/additive/seed-0, 2 in models/fusion/fft/seed-0"
    assert differing_versions(outputs, project) == line


HEAVY = ("torch", "transformers", "mlflow", "dvc", "pandas", "pyarrow", "matplotlib", "scipy", "sklearn")


def test_a_study_without_seeds_has_every_output_and_loads_nothing_heavy(tmp_path: Path) -> None:
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "variants", tmp_path / "variants")
    code = f"""
import sys
from isoscope.platform.cli import app
app(["analyse", "fusion", "-S", "studies.fusion.seeds=[]"], standalone_mode=False)
print([name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    stage = read_yaml(ROOT, Path("dvc.yaml"))["stages"]["analyse"]["do"]
    declared = [
        next(iter(out)) if isinstance(out, dict) else out
        for part in ("outs", "metrics", "plots")
        for out in stage[part]
    ]
    for out in declared:
        place = tmp_path / out.replace("${key}", "fusion")
        assert place.is_file() or any(place.iterdir()), out
