"""Shared results: after push, clone and pull nothing runs again, and an empty MLflow can be filled."""

import json
import shutil
from itertools import product
from pathlib import Path

import pytest

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.platform.mirror.fields import LACKS, RESTORED, TIMESTAMPS
from isoscope.platform.runs.machine_load import PREFIX
from isoscope.platform.runs.provenance import file_md5
from isoscope.platform.runs.stored import check_published
from pipeline_project import ARMS, Finished, Project
from struck import KINDS


@pytest.fixture(scope="module")
def origin(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose results lie in a DVC remote, which is a folder."""
    folder = tmp_path_factory.mktemp("sharing")
    project = finished.project.copy(folder / "origin")
    project.dvc("remote", "add", "--default", "store", str(folder / "store"))
    project.commit("A remote")
    project.dvc("push")
    return project


@pytest.fixture(scope="module")
def clone(origin: Project) -> Project:
    folder = origin.folder.with_name("clone")
    origin.git("clone", "--quiet", str(origin.folder), str(folder))
    return Project(folder)


def test_a_clone_lacks_what_dvc_keeps_and_with_the_data_pulled_nothing_is_run(clone: Project, origin: Project) -> None:
    lacking = json.loads(clone.dvc("status", "--json").out)
    assert "train@fusion" in lacking
    assert not (clone.folder / "models").exists()
    clone.dvc("pull")
    assert [clone.digest(arm) for arm in ARMS] == [origin.digest(arm) for arm in ARMS]
    done = clone.dvc("repro")
    assert (done.ran, done.restored) == ([], [])
    assert clone.git("status", "--porcelain") == ""
    assert not (clone.folder / ".isoscope").exists()


def test_an_empty_mlflow_is_filled_once_and_a_pipeline_run_finds_all_done(clone: Project, origin: Project) -> None:
    assert clone.isoscope("mirror").out.startswith("mirrored 3 runs to mlflow.db: ")
    theirs, ours = clone.tracked(mirrored=False), origin.tracked(mirrored=False)
    assert theirs.keys() == ours.keys()
    assert {origin.digest(arm) for arm in ARMS} < theirs.keys(), "and the analysis of the study"
    for digest, run in theirs.items():
        original = ours[digest]
        assert (run.name, run.status) == (original.name, "FINISHED")
        assert run.params == original.params
        assert run.points == {
            name: at for name, at in original.points.items() if not name.startswith(("speed/", PREFIX))
        }
        assert run.datasets == original.datasets
        assert run.models == original.models
        assert run.tags[TIMESTAMPS] == RESTORED
        assert run.tags["isoscope.lacks"] == LACKS
        assert TIMESTAMPS not in original.tags
        same = {name for name in original.tags if name.startswith(("isoscope.dep", "isoscope.output"))}
        if run.tags["isoscope.stage"] == "analyse":  # other stages write in its folder, too: it has no hash of its own
            same -= {"isoscope.output.md5"}
        assert {name: run.tags[name] for name in same} == {name: original.tags[name] for name in same}
    assert clone.isoscope("mirror").out.endswith(": 0 points and 0 models were new\n")
    done = clone.isoscope("repro")
    assert (done.ran, done.restored) == ([], [])
    assert clone.tracked(mirrored=False) == theirs


def test_what_was_pulled_is_not_trained_again_if_dvc_vouches_for_it(clone: Project, tmp_path: Path) -> None:
    done = clone.isoscope("train", "fusion", "additive", "--seed", "0")
    assert "found finished, nothing trained" in done.err
    assert clone.git("status", "--porcelain") == ""
    assert json.loads(clone.dvc("status", "--json").out) == {}
    other = clone.copy(tmp_path / "other", without=(".isoscope",))
    path = other.output("additive") / "metrics.jsonl"
    text = path.read_text("utf-8")
    path.unlink()  # it may be a link into DVC's cache
    path.write_text(text + text.splitlines()[-1].replace("1", "2") + "\n", "utf-8")
    altered = path.read_text("utf-8")
    assert "found finished" in other.isoscope("train", "fusion", "additive", "--seed", "0").err, "DVC's cache has it"
    assert path.read_text("utf-8") == text
    other.run("rm", "-rf", ".dvc/cache", ".isoscope")
    path.unlink()
    path.write_text(altered, "utf-8")
    assert "epoch 1" in other.isoscope("train", "fusion", "additive", "--seed", "0").err
    assert path.read_text("utf-8") == text


def test_damage_to_any_file_of_a_pulled_output_is_named(clone: Project, tmp_path: Path) -> None:
    """dvc.lock vouches for what the run wrote; the command that is named restores it from DVC's cache.

    Parameters and model cards hold names of the study, which are no part of the run.
    """
    other = clone.copy(tmp_path / "other", without=(".isoscope",))
    other.dvc("checkout", "--force")
    project, output = paths.Project(other.folder, other.folder), other.output("additive")
    files = [
        path for path in sorted(output.rglob("*")) if path.is_file() and path.name not in ("config.yaml", "README.md")
    ]
    for file, strike in product(files, KINDS.values()):
        kept = {path: path.read_bytes() for path in file.parent.iterdir() if path.is_file()}
        strike(file)
        with pytest.raises(InputError, match=r"seed-0: .*; run: isoscope train fusion additive --seed 0$"):
            check_published(project, output)
        for path, content in kept.items():
            path.unlink(missing_ok=True)
            path.write_bytes(content)
    check_published(project, output)
    KINDS["flipped"](output / "predictions.parquet")
    line = "seed-0: predictions.parquet has changed since it was written; run: isoscope train fusion additive"
    assert line in other.refused("analyse", "fusion")
    other.isoscope("train", "fusion", "additive", "--seed", "0")
    other.isoscope("analyse", "fusion")


def test_two_clones_on_one_cache(origin: Project, tmp_path: Path) -> None:
    """What another clone does to the shared cache costs this clone time, and no byte."""
    cache = origin.dvc("cache", "dir").out.strip()
    shared, clones = tmp_path / "cache", []
    shutil.copytree(cache, shared)
    for name in ("one", "other"):
        origin.git("clone", "--quiet", str(origin.folder), str(tmp_path / name))
        clones.append(origin.at(tmp_path / name))
        clones[-1].dvc("cache", "dir", "--local", str(shared))
        clones[-1].dvc("checkout")
    one, other = clones
    weights = next(one.output("additive").glob("checkpoints/*/model.safetensors")).relative_to(one.folder)
    whole = file_md5(one.folder / weights)
    command = ("train", "fusion", "additive", "--seed", "0")
    assert "found finished" in one.isoscope(*command).err
    stored = shared / "files/md5" / whole[:2] / whole[2:]
    stored.chmod(0o644)
    KINDS["flipped"](stored)  # by a process of the other clone
    (other.folder / weights).unlink()
    assert "epoch 1" in other.isoscope(*command).err, "DVC's copy is damaged: it is trained again"
    assert file_md5(other.folder / weights) == whole
    one.isoscope("gc")
    assert "found finished" in one.isoscope(*command).err, "the published copy is whole"
    assert file_md5(one.folder / weights) == whole
