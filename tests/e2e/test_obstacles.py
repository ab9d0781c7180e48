"""Wrong input, and what a machine, a file system or another program puts in the way: one line, nothing lost."""

import errno
import os
import shutil
import sys
from pathlib import Path

import pytest

from pipeline_project import BINARIES, Done, Finished, Project


@pytest.fixture(scope="module")
def bare(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Configured, but nothing is prepared; the task `absent` is of the hub, and a hub is a folder that lacks it."""
    folder = tmp_path_factory.mktemp("bad-input") / "project"
    bare = finished.project.copy(folder, without=(".isoscope", "data", "models", "reports", "mlflow.db"))
    bare.edit("params.yaml", "\n- tiny\n", "\n- tiny\n- absent\n")
    text = bare.text("variants/task/sst2.yaml").replace("name: sst2_sentence", "name: no_such_set")
    (folder / "variants/task/absent.yaml").write_text(text, "utf-8")
    (folder / "hub").mkdir()
    return bare


TRAIN = ("train", "fusion", "additive", "--seed", "0")


@pytest.mark.parametrize(
    "command, said",
    [
        (("train", "fusion", "conv3d", "--seed", "0"), ("params.yaml", "no arm 'conv3d'", "did you mean 'conv2d'?")),
        (TRAIN, ("data/processed/tiny", "not prepared", "run: isoscope prepare tiny")),
        (("analyse", "fusion"), ("2 of 2 runs are missing", "run: isoscope train fusion")),
        (("report",), ("run: isoscope",)),
        (("prepare", "absent"), ("no_such_set", "ISOSCOPE_HUB")),
        (("repro", "-S", "training.epoch=2"), ("training.epoch", "did you mean 'epochs'?")),
    ],
    ids=lambda value: " ".join(value) if value[0] in ("train", "prepare", "analyse", "report", "repro") else None,
)
def test_one_line_says_what_is_wrong(bare: Project, command: tuple[str, ...], said: tuple[str, ...]) -> None:
    line = bare.refused(*command, ISOSCOPE_HUB=str(bare.folder / "hub"))
    assert [part for part in said if part not in line] == [], line
    assert bare.records() == {}
    assert not (bare.folder / "mlflow.db").exists()
    assert not (bare.folder / "data").exists()


def test_an_absent_device_is_not_replaced(bare: Project, finished: Finished) -> None:
    shutil.copytree(finished.project.folder / "data", bare.folder / "data")
    another = (*TRAIN[:-1], "7")  # a run that DVC's cache does not hold
    line = bare.refused(*another, "-S", "training.device=cuda", CUDA_VISIBLE_DEVICES="")
    assert "training.device: 'cuda' is not available" in line
    assert not any(record.run for record in bare.records().values())


NO_LOCKS = Path(__file__).parents[1] / "no_locks.py"
COPIED = {"mirrored": False}


def line_of(done: Done) -> str:
    """The only line of an error."""
    (line,) = [one for one in done.err.splitlines() if not one.startswith("warning: ")]
    assert line.startswith("isoscope: "), done.err
    return line


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the state, without notes of what holds a lock."""
    files = sorted(path for path in (folder / ".isoscope").rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files if path.suffix != ".lock"}


@pytest.mark.parametrize(
    "number, command",
    [(errno.ENOLCK, TRAIN), (errno.ENOSYS, ("mirror",)), (errno.EOPNOTSUPP, ("gc",)), (errno.ENOLCK, ("repro",))],
    ids=["train", "mirror", "gc", "repro"],
)
def test_a_file_system_without_locks_is_named(project: Project, command: tuple[str, ...], number: int) -> None:
    before = contents(project.folder)
    words = (sys.executable, str(NO_LOCKS), str(number), str(BINARIES / "isoscope"), *command)
    line = line_of(project.run(*words, code=2))
    assert str(project.folder / ".isoscope") in line
    assert f"has no locks (flock: {os.strerror(number)}); use a local disk" in line
    assert contents(project.folder) == before


def where(project: Project, name: str) -> Path:
    """A file of the project's state; DIGEST is the finished run's."""
    return project.folder / name.replace("DIGEST", project.digest("additive"))


FILES = [
    ("folder", ".isoscope/runs/DIGEST/lease.json", TRAIN),
    ("folder", ".isoscope/runs/DIGEST/lease.json", ("gc",)),
    ("folder", ".isoscope/records/DIGEST.jsonl", TRAIN),
    ("folder", ".isoscope/records/DIGEST.jsonl", ("mirror",)),
    ("folder", ".isoscope/locks/mlflow-schema.lock", ("mirror",)),
    ("folder", ".isoscope/accepted/DIGEST.json", ("gc",)),
    ("folder", "data/processed/tiny/settings.json", TRAIN),
    ("folder", "reports/parts/fusion/comparison.json", ("report",)),
    ("pipe", ".isoscope/runs/DIGEST/lease.json", TRAIN),
    ("pipe", ".isoscope/records/DIGEST.jsonl", ("report",)),
    ("pipe", "models/fusion/additive/seed-0/predictions.parquet", ("analyse", "fusion")),
]


@pytest.mark.parametrize("kind, name, command", FILES)
def test_what_is_no_file_where_a_file_belongs_is_named(
    project: Project, kind: str, name: str, command: tuple[str, ...]
) -> None:
    path = where(project, name)
    kept = path.with_name(f"{path.name}.kept")
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        path.rename(kept)
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    try:
        done = project.isoscope(*command, code=None)
    finally:
        path.rmdir() if kind == "folder" else path.unlink()
        if kept.exists():
            kept.rename(path)
    assert done.code in (1, 2), done
    if command == ("mirror",) and "records" in name:  # each run is a line of its own, and a last line counts them
        assert path.name in done.err.splitlines()[0], done.err
    else:
        assert path.name in line_of(done)


@pytest.mark.parametrize(
    "words, code, said",
    [
        ("--version >&-", 0, ""),
        ("--version 2>&-", 0, ""),
        ("--version <&- >&- 2>&-", 0, ""),
        ("--version > /dev/full", 1, "isoscope: stdout: the disk is full; free space there"),
        ("--version 2> /dev/full", 0, ""),
        ("--version | true", 141, "isoscope: the reader of its output has ended"),
        ("schema | true", 141, "isoscope: the reader of its output has ended"),  # more than a pipe's buffer of stdout
        ("train nowhere 2>&-", 2, ""),
        ("train nowhere 2> /dev/full", 2, ""),
    ],
)
def test_streams_that_are_closed_full_or_unread(project: Project, words: str, code: int, said: str) -> None:
    """The command prints one short line, which it can only fail to write at its end; an error keeps its exit code."""
    script = f'unset PYTHONUNBUFFERED; "{BINARIES / "isoscope"}" {words}; exit "${{PIPESTATUS[0]}}"'
    done = project.run("bash", "-c", script, code=code)
    assert done.err.startswith(said)
    assert done.err.count("\n") == bool(said)


def test_a_study_trains_with_all_streams_closed(project: Project) -> None:
    """Its processes inherit them, and no file of a run takes the place of a stream."""
    before = set(project.records())
    command = f'"{BINARIES / "isoscope"}" train fusion --seed 5 -S training.epochs=1 <&- >&- 2>&-'
    done = project.run("bash", "-c", command)
    assert (done.out, done.err) == ("", "")
    new = [record for digest, record in project.records().items() if digest not in before]
    assert [record.status for record in new] == ["FINISHED"] * 2
    assert not any(record.damaged for record in new)


# Root without its right to pass over owners and modes, so that another user's files are that to it.
AS_A_USER = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner")
NOBODY = 65534


@pytest.fixture(scope="module")
def anothers(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The finished project, all of it another user's, readable to everybody."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can give files to another user, and only setpriv can then lower root's rights")
    project = finished.project.copy(tmp_path_factory.mktemp("anothers") / "project", mirrored=False)
    for path in (project.folder, *project.folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return project


def as_another(project: Project, *command: str) -> str:
    """Return the only line of a command that another user runs."""
    done = project.run(*AS_A_USER, str(BINARIES / "isoscope"), *command, code=None)
    assert done.code in (1, 2)
    return line_of(done)


@pytest.mark.parametrize(
    "command", [TRAIN, ("repro",), ("report",), ("gc",), ("mirror",), ("prepare", "tiny")], ids=lambda words: words[0]
)
def test_another_users_files_are_named_and_left_alone(anothers: Project, command: tuple[str, ...]) -> None:
    before = contents(anothers.folder)
    line = as_another(anothers, *command)
    assert str(anothers.folder) in line
    assert "Permission denied" in line
    assert contents(anothers.folder) == before


@pytest.mark.parametrize(
    "name, command",
    [(".isoscope/records", TRAIN), (".isoscope/runs", ("report",)), ("params.yaml", ("check",))],
)
def test_what_another_user_hides_is_named(anothers: Project, name: str, command: tuple[str, ...]) -> None:
    path = anothers.folder / name
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        line = as_another(anothers, *command)
    finally:
        path.chmod(mode)
    assert f"{path}: this user may not read or write it" in line
