"""An output is the old or the new folder, whole; one that its run did not write is named, with the cure."""

import shutil
from pathlib import Path

import pytest

from isoscope.base.atomic_files import MANIFEST, fault, seal
from isoscope.base.errors import InputError
from isoscope.base.paths import Project, extracted, measured, trained
from isoscope.platform.config.tree import dump_yaml
from isoscope.platform.runs import stored
from isoscope.platform.runs.follower import FOLLOWED
from isoscope.platform.runs.provenance import dvc_md5, file_md5
from isoscope.platform.runs.run import Run
from isoscope.platform.runs.stored import check_published, publish
from own_runs import finish, make
from own_runs import publish as publish_again
from struck import KINDS

PLACES = {"train": trained, "extract": extracted, "measure": measured}


@pytest.fixture(params=PLACES)
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A finished run of each stage that publishes a cell; `published` publishes it."""
    monkeypatch.setenv(FOLLOWED, "1")

    def write(folder: Path) -> None:
        for name in ("metrics.jsonl", "table.parquet", "states/step-1.safetensors", "states/step-2.safetensors"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(f"bytes of {name}")

    return finish(make(tmp_path, request.param), write)


def published(run: Run) -> Path:
    target = run.project.folder / PLACES[run.identity.stage]("fusion", "additive", 0)
    run.publish(target)
    return target


@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_any_file_is_named_with_its_cure(run: Run, kind: str) -> None:
    target = published(run)
    check_published(run.project, target)
    for name in sorted(path.relative_to(run.output).as_posix() for path in run.output.rglob("*.*[lst]")):
        KINDS[kind](target / name)
        command = "train" if run.identity.stage == "train" else "states"
        again = f"run: isoscope {command} fusion additive --seed 0"
        with pytest.raises(
            InputError, match=rf"seed-0: \S+ (has changed|is missing|does not name its run).*; {again}$"
        ):
            check_published(run.project, target)
        published(run)
        check_published(run.project, target)


def test_only_the_files_that_are_read_are_checked_and_they_must_be_there(run: Run) -> None:
    """A stage takes optional files where they are: a lost file must not pass as a run without it."""
    target = published(run)
    KINDS["flipped"](target / "table.parquet")
    check_published(run.project, target, {"metrics.jsonl", "config.yaml"})
    KINDS["missing"](target / "states/step-2.safetensors")
    check_published(run.project, target, ("metrics.jsonl", "other/*"))
    with pytest.raises(InputError, match=r"states/step-2.safetensors is missing; run: isoscope"):
        check_published(run.project, target, ("states/*", "metrics.jsonl"))


def test_what_nothing_vouches_for_passes(tmp_path: Path) -> None:
    folder = tmp_path / trained("fusion", "additive", 0)
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"digest: {'a' * 64}\n")
    check_published(Project(tmp_path, tmp_path), folder)


def test_names_of_another_study_with_the_same_cell_are_no_damage(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone has no stored output, and the bytes that DVC holds of a digest may be those of either study."""
    target, place = published(run), PLACES[run.identity.stage]
    run.identity = run.identity._replace(study="other")
    other = run.project.folder / place("other", "additive", 0)
    run.publish(other)
    cached = {}
    for path in [path for path in other.rglob("*") if path.is_file()]:
        md5 = file_md5(path)
        cached[path.relative_to(other).as_posix()] = kept = tmp_path / "cache" / md5[:2] / md5[2:]
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, kept)
    shutil.rmtree(run.folder)
    (tmp_path / "dvc.lock").touch()
    monkeypatch.setattr(stored, "_named", lambda *_: {run.digest: cached})
    check_published(run.project, target)
    KINDS["flipped"](target / "table.parquet")
    with pytest.raises(InputError, match=r"table.parquet has changed since it was written"):
        check_published(run.project, target)


def test_a_run_of_two_studies_is_found_in_the_one_that_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record ends with the study that published it last, which may be removed."""
    monkeypatch.setenv(FOLLOWED, "1")
    run = finish(make(tmp_path), lambda folder: (folder / "metrics.jsonl").write_text("{}\n"))
    kept, removed = (publish_again(run, tmp_path / trained(study, "additive", 0)) for study in ("fusion", "other"))
    end = stored.finished(run.project, run.digest)
    assert end is not None
    assert end.output == removed.relative_to(tmp_path).as_posix()
    stages = {"train@fusion": {"outs": [{"path": "models/fusion", "md5": dvc_md5(tmp_path / "models/fusion")}]}}
    (tmp_path / "dvc.lock").write_text(dump_yaml({"schema": "2.0", "stages": stages}))
    shutil.rmtree(run.folder)
    shutil.rmtree(removed.parents[1])
    assert stored.files_of(run.project, run.digest)["metrics.jsonl"] == kept / "metrics.jsonl"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    (tmp_path / "run/checkpoints/weights").write_bytes(b"w" * 5000)
    (tmp_path / "run/metrics.jsonl").write_text("{}\n")
    (tmp_path / "run/manifest.json").write_text("seal")
    return tmp_path / "run"


def test_it_is_a_whole_copy_with_extras_and_without_the_seal_also_in_the_place_of_a_link(
    source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (tmp_path / "cache").mkdir()
    out.symlink_to(tmp_path / "cache")
    for _ in range(2):
        publish(source, out, extra={"config.yaml": "a: 1\n"})
        assert not out.is_symlink()
        found = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
        assert found == {"checkpoints/weights", "metrics.jsonl", "config.yaml"}
        (out / "stray").write_text("the second time replaces the first whole")
    assert list((tmp_path / "cache").iterdir()) == [], "replaced, not followed"
    assert (out / "checkpoints/weights").read_bytes() == (source / "checkpoints/weights").read_bytes()


def test_what_a_killed_writer_left_is_no_part_of_the_seal(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/weights").write_bytes(b"whole")
    (tmp_path / f".{MANIFEST}.writing").write_text("{", "utf-8")
    (tmp_path / "inner/.table.parquet.writing").write_bytes(b"half")
    left = tmp_path / "inner/.epoch-3.writing"
    left.mkdir()
    (left / "weights").write_bytes(b"half")
    seal(tmp_path)
    assert fault(tmp_path) is None
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert names == {MANIFEST, "inner", "inner/weights"}
    for harm, said in ((Path.unlink, "is missing"), (lambda file: file.write_bytes(b"whale"), "has changed")):
        harm(tmp_path / "inner/weights")
        assert fault(tmp_path).startswith(f"inner/weights {said}")
    (tmp_path / MANIFEST).unlink()
    assert fault(tmp_path) == f"{MANIFEST} is missing"
