"""The runs of a study, checked before they are compared."""

from pathlib import Path

import pytest

from finished_runs import digest, write_run
from isoscope.base.paths import Project
from isoscope.platform.runs.provenance import Git
from isoscope.platform.runs.record import Record
from isoscope.platform.stages.study_run import differing_versions


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
