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
from isoscope.platform.runs.provenance import Git
from isoscope.platform.runs.record import Record
from isoscope.platform.stages.study_cells import Setup
from isoscope.platform.stages.study_run import differing_versions

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


def test_other_code_on_a_node_is_refused() -> None:
    with pytest.raises(InputError, match=r"^node \S+: its isoscope has other code; install the same version"):
        _ = sent(code="other").configuration


def test_a_wrong_overlay_on_a_node_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^node \S+: .*none.py.*no such file"):
        _ = sent(plugins=[tmp_path / "none.py"]).configuration


def test_a_missing_project_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^node \S+: no project at .* at the same path"):
        _ = sent(project=Project(tmp_path, tmp_path)).configuration


def trained(project: Project, arm: str, seed: int, **versions: str) -> Path:
    """A published run, and its record with an attempt under these versions."""
    output = write_run(project.folder / "models", arm, seed)
    named = digest("fusion", arm, seed)
    with Record(project.records / f"{named}.jsonl") as record:
        record.run(digest=named, stage="train", study="fusion", arm=arm, seed=seed)
        record.attempt(git=Git(None), environment={"python": "3.12.1", "torch": "2.9.0", **versions}, parent_run=None)
        record.end("FINISHED")
    return output


@pytest.mark.parametrize("name", ["torch", "numpy", "python", "tokenizers"])
def test_a_package_upgraded_between_the_runs_of_a_study_is_named(tmp_path: Path, name: str) -> None:
    project = Project(tmp_path, tmp_path)
    outputs = [trained(project, "additive", 0, **{name: "1"}), trained(project, "conv2d", 0, **{name: "1"})]
    assert differing_versions(outputs, project) is None
    outputs.append(trained(project, "fft", 0, **{name: "2"}))
    line = f"{name} 1 in models/fusion/additive/seed-0, 2 in models/fusion/fft/seed-0"
    assert differing_versions(outputs, project) == line


def test_threads_and_devices_are_no_versions_and_a_run_without_a_record_is_not_known(tmp_path: Path) -> None:
    project = Project(tmp_path, tmp_path)
    outputs = [trained(project, "additive", 0, threads="1"), trained(project, "conv2d", 0, threads="8", device="cuda")]
    outputs.append(write_run(project.folder / "models", "fft", 0))
    assert differing_versions(outputs, project) is None


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
