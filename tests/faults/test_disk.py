"""A real disk runs full during training: no unfinished file counts, and later the run resumes."""

import shutil
from pathlib import Path

import kit
import pytest
from test_faults import TRAIN, equal, nothing_half_done

from disks import disk
from isoscope.platform.runs.provenance import file_md5s
from pipeline_project import Project


@pytest.fixture(scope="module")
def undisturbed(prepared: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = prepared.copy(tmp_path_factory.mktemp("undisturbed") / "project")
    assert kit.attempt(project.folder, *TRAIN).code == 0
    return project


def test_a_full_disk_costs_nothing_but_time(
    prepared: Project, undisturbed: Project, tmp_path: Path, exhaustive: bool
) -> None:
    leaves = range(0, 400_000, 8_192 if exhaustive else 131_072)
    failed = 0
    with disk(tmp_path / "disk", "256m") as one:
        for leave in leaves:
            project = prepared.copy(one.folder / f"project-{leave}")
            with one.filled(leave):
                struck = kit.attempt(project.folder, *TRAIN)
                nothing_half_done(project)
            assert "Traceback" not in struck.err
            assert struck.code in (0, 1), struck.err
            if struck.code:
                failed += 1
                assert "free space" in struck.err.splitlines()[-1]
            else:
                assert file_md5s(project.output("conv2d")) == file_md5s(undisturbed.output("conv2d"))
            again = kit.attempt(project.folder, *TRAIN)
            assert again.code == 0, again.err
            equal(project, undisturbed)
            shutil.rmtree(project.folder)  # 49 of them would fill the disk by themselves
    assert 0 < failed < len(leaves), "some of these sizes are too small, and some are enough"
