"""Faults at each durable write of a command: kill, stop, full or broken disk; then the same command again."""

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import kit
import pytest
from kit import Action, Ended, Fault
from looks import Look, ends_as, finished, look, same_points, struck
from looks import nothing_half_done as nothing_half_done_inside

from isoscope.base.atomic_files import fault as damage
from isoscope.platform.config.profiles import laid_over
from isoscope.platform.runs.machine_load import PREFIX
from isoscope.platform.runs.provenance import file_md5s
from pipeline_project import Project

TRAIN = ("train", "fusion", "conv2d", "--seed", "0")
PREPARE = ("prepare", "tiny")
REFUSALS = [
    pytest.param("full", "free space", False, 0, marks=pytest.mark.exhaustive),
    pytest.param("full", "free space", True, 1, marks=pytest.mark.exhaustive),
    pytest.param("broken", "check the disk", False, 2, marks=pytest.mark.exhaustive),
    ("broken", "check the disk", True, 3),
]
Fresh = Callable[[], Project]


@pytest.fixture(scope="session")
def whole(prepared: Project, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Ended]:
    """The run that nothing happened to."""
    project = prepared.copy(tmp_path_factory.mktemp("whole") / "project")
    return project, kit.attempt(project.folder, *TRAIN)


def chosen(ended: Ended, exhaustive: bool, *, turn: int, every: int = 1) -> list[int]:
    """Return numbers of durable writes: all, or one of each kind (of every second, …), others for each `turn`."""
    if exhaustive:
        return list(range(len(ended.points)))
    kinds: dict[str, list[int]] = {}
    for number, (point, _) in enumerate(ended.points):
        kinds.setdefault(point, []).append(number)
    some = list(kinds.values())[turn % every :: every]
    return sorted(numbers[7 * turn % len(numbers)] for numbers in some)


@pytest.fixture
def fresh(prepared: Project, tmp_path: Path) -> Fresh:
    """Yield copies of the prepared project, one after another."""
    count = iter(range(1_000_000))
    return lambda: prepared.copy(tmp_path / f"project-{next(count)}")


def equal(project: Project, whole: Project) -> None:
    """The output is bitwise that of the run nothing happened to, and the record holds each point once and its end."""
    assert file_md5s(project.output("conv2d")) == file_md5s(whole.output("conv2d"))
    (record,), (right,) = project.records().values(), whole.records().values()
    same_points(record, right, but=("speed/", PREFIX))


def nothing_half_done(project: Project) -> None:
    """Check that existing files count: sealed folders are whole, and a pipeline output is complete."""
    for folder in project.folder.glob(".isoscope/runs/*/output"):
        assert damage(folder) is None
    output = project.output("conv2d")
    if output.exists():
        assert {"config.yaml", "metrics.jsonl", "predictions.parquet"} <= {path.name for path in output.iterdir()}


def survives(project: Project, whole: tuple[Project, Ended], fault: Fault) -> Ended:
    """Run one attempt with a fault, then the same command without; return the end of the first."""
    struck = kit.attempt(project.folder, *TRAIN, fault=fault)
    nothing_half_done(project)
    again = kit.attempt(project.folder, *TRAIN)
    assert again.code == 0, again.err
    assert "Traceback" not in struck.err + again.err
    equal(project, whole[0])
    return struck


def test_killed_at_a_durable_write(fresh: Fresh, whole: tuple[Project, Ended], exhaustive: bool) -> None:
    for at in chosen(whole[1], exhaustive, turn=5):
        struck = survives(fresh(), whole, Fault("kill", at))
        assert struck.code == -9
        assert len(struck.points) == at + 1


def test_asked_to_stop_at_a_durable_write(fresh: Fresh, whole: tuple[Project, Ended], exhaustive: bool) -> None:
    for at in chosen(whole[1], exhaustive, turn=4, every=2):
        struck = survives(fresh(), whole, Fault("terminate", at))
        assert struck.code in (143, 0, -15), "stopped well; ended first; or struck before training listens"


@pytest.mark.parametrize("action, said, lasting, turn", REFUSALS)
def test_the_disk_refuses_a_durable_write(
    fresh: Fresh, whole: tuple[Project, Ended], exhaustive: bool, action: Action, said: str, lasting: bool, turn: int
) -> None:
    for at in chosen(whole[1], exhaustive, turn=turn, every=2):
        point, _ = whole[1].points[at]
        struck = survives(fresh(), whole, Fault(action, at, lasting))
        if struck.code == 0:
            assert point == "record", "only a point of a metric may wait in memory"
            assert not lasting
        else:
            assert struck.code == 1
            assert said in struck.err.splitlines()[-1]
            assert "same command again" in struck.err.splitlines()[-1]


def test_killed_at_any_time(fresh: Fresh, whole: tuple[Project, Ended], exhaustive: bool) -> None:
    dice = random.Random(0)
    began = time.monotonic()
    kit.attempt(fresh().folder, *TRAIN)
    seconds = time.monotonic() - began
    for _ in range(100 if exhaustive else 2):
        project = fresh()
        while kit.attempt(project.folder, *TRAIN, seconds=dice.uniform(0.1, seconds)).code != 0:
            nothing_half_done(project)
        equal(project, whole[0])


def test_a_longer_run_is_killed_at_a_durable_write(prepared: Project, tmp_path: Path, exhaustive: bool) -> None:
    """The shorter run stays finished with its kept state, and the longer run has the bytes of an uninterrupted run."""
    words = (*TRAIN, "-S", "training.schedule.epochs=3", "-S", "training.keep_state=true")
    base = prepared.copy(tmp_path / "shorter")
    assert kit.attempt(base.folder, *words, "-S", "training.epochs=2").code == 0
    (shorter,) = base.records()
    before = file_md5s(base.folder / ".isoscope/runs" / shorter)
    longer = (*words, "-S", "training.epochs=3")
    alone = prepared.copy(tmp_path / "alone")
    assert kit.attempt(alone.folder, *longer).code == 0
    (digest,) = alone.records()
    output = Path(".isoscope/runs", digest, "output")
    whole = base.copy(tmp_path / "whole")
    ended = kit.attempt(whole.folder, *longer)
    assert "from its kept state" in ended.err
    for number, at in enumerate(chosen(ended, exhaustive, turn=3)):
        project = base.copy(tmp_path / f"struck-{number}")
        assert kit.attempt(project.folder, *longer, fault=Fault("kill", at)).code == -9
        assert file_md5s(project.folder / ".isoscope/runs" / shorter) == before
        again = kit.attempt(project.folder, *longer)
        assert again.code == 0, again.err
        assert "Traceback" not in again.err
        assert file_md5s(project.folder / output) == file_md5s(alone.folder / output)
        assert file_md5s(project.folder / ".isoscope/runs" / shorter) == before
        begun = {one.began["run"] for one in project.records()[digest].attempts if one.began}
        assert begun == {shorter}
        same_points(project.records()[digest], alone.records()[digest], but=("speed/", PREFIX))


def test_data_is_prepared_whole_or_not_at_all(prepared: Project, fresh: Fresh, exhaustive: bool) -> None:
    right = file_md5s(prepared.folder / "data/processed/tiny")
    count = len(kit.attempt(fresh().folder, *PREPARE).points)
    for at in range(count):
        for action in ("kill", "full") if exhaustive or at in (0, count - 1) else ("kill",):
            project = fresh()
            (project.folder / "params.yaml").touch()
            struck = kit.attempt(project.folder, *PREPARE, fault=Fault(action, at))
            assert struck.code == (-9 if action == "kill" else 1)
            data = project.folder / "data/processed/tiny"
            assert not data.exists() or file_md5s(data) == right
            assert kit.attempt(project.folder, *PREPARE).code == 0
            assert file_md5s(data) == right
            assert json.loads((data / "manifest.json").read_text("utf-8"))["source"]


@pytest.fixture(scope="module")
def trained(prepared: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Both arms are trained, nothing is analysed."""
    project = prepared.copy(tmp_path_factory.mktemp("trained") / "project")
    for arm in ("additive", "conv2d"):
        assert kit.attempt(project.folder, "train", "fusion", arm, "--seed", "0").code == 0
    return project


def visible(project: Project) -> dict[str, str]:
    """The files of the report, without those of a file or folder that is not whole yet: its name begins with a dot."""
    stand = file_md5s(project.folder / "reports")
    return {name: md5 for name, md5 in stand.items() if "/." not in f"/{name}"}


@pytest.mark.parametrize("action", ["kill", pytest.param("full", marks=pytest.mark.exhaustive)])
def test_tables_and_report_are_right_or_not_there(
    trained: Project, tmp_path: Path, exhaustive: bool, action: Action
) -> None:
    """Each file is the whole old or the whole new file; the same command again gives the same bytes."""
    whole = trained.copy(tmp_path / "whole")
    for command in (("analyse", "fusion"), ("report",)):
        before = whole.copy(tmp_path / f"before-{command[0]}")
        ended = kit.attempt(whole.folder, *command)
        assert ended.code == 0, ended.err
        right = file_md5s(whole.folder / "reports")
        for at in chosen(ended, exhaustive, turn=0 if action == "kill" else 1):
            project = before.copy(tmp_path / f"{command[0]}-{at}")
            struck = kit.attempt(project.folder, *command, fault=Fault(action, at))
            if struck.code == 0:
                assert ended.points[at][0] == "record", "only a point of a metric may wait in memory"
            else:
                assert struck.code == (-9 if action == "kill" else 1)
                assert action == "kill" or "free space" in struck.err.splitlines()[-1]
            assert visible(project).items() <= right.items()
            assert kit.attempt(project.folder, *command).code == 0
            assert visible(project) == right
            assert not list(project.folder.glob("reports/**/.*.writing/*")), "a folder of the first attempt is left"


@pytest.mark.parametrize("action", ["kill", "full"])
def test_a_profile_is_laid_or_not(prepared: Project, fresh: Fresh, action: Action) -> None:
    project = fresh()
    count = len(kit.attempt(project.folder, "profile", "minilm").points)
    before, after = prepared.text("params.yaml"), project.text("params.yaml")
    assert before != after
    for at in range(count):
        project = fresh()
        assert kit.attempt(project.folder, "profile", "minilm", fault=Fault(action, at)).code in (-9, 1)
        assert project.text("params.yaml") in (before, after)
        kit.attempt(project.folder, "profile", "--reset")
        assert project.text("params.yaml") == before


STUDY = {"kind": "fusion", "task": "tiny", "settings": [], "axes": {"fusion": ["conv2d"]}, "seeds": [0]}
SETTINGS = {
    "studies": {"fusion": STUDY},
    "training": {"snapshots": {"epochs": True}},
    "measures": {"names": ["isoscore"], "vectors": ["first"], "probes": {"folds": 2}},
}
PAGE = (
    *("--text", "texts/order.jsonl", "--column", "text", "--out", "geometry", "--measure", "isoscore"),
    *("--vectors", "first", "--subsample", "16", "--draws", "3", "--sentences", "40", "--words", "20"),
)
LOOKS = ("states", "analyse", "geometry")
CHAIN = (("kill", False), ("full", False), ("full", True))


@pytest.fixture(scope="module")
def looks(prepared: Project, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Look]:
    """Every hidden-state command of a study with one arm, after the commands that it needs."""
    folder = tmp_path_factory.mktemp("looks")
    project = prepared.copy(folder / "trained")
    (project.folder / "params.yaml").write_text(laid_over(project.text("params.yaml"), SETTINGS), "utf-8")
    project.commit("A study of one arm, with snapshots")
    assert kit.attempt(project.folder, *TRAIN).code == 0
    best = next((project.output("conv2d") / "checkpoints").iterdir()).relative_to(project.folder)
    found = {"geometry": look(project, folder / "geometry", "geometry", f"./{best}", *PAGE)}
    for words in (("states", "fusion", "conv2d"), ("analyse", "fusion")):
        found[words[0]] = look(project, folder / words[0], *words)
        project = found[words[0]].after
    return found


@pytest.mark.parametrize("command", LOOKS)
def test_looking_inside_is_struck_at_a_durable_write(
    looks: dict[str, Look], tmp_path: Path, exhaustive: bool, command: str
) -> None:
    """Killed, the disk full at this write, and full from it on, in this or another order; then left in peace."""
    one, kept = looks[command], 0
    every = [at for at, write in enumerate(one.writes) if write.point in ("states", "table")]
    for at in range(len(one.writes)) if exhaustive else (every[len(every) // 3],):
        project = one.before.copy(tmp_path / f"project-{at}")
        for action, lasting in (*CHAIN[at % 3 :], *CHAIN[: at % 3]):
            ended = struck(one, project, Fault(action, one.writes[at], lasting))
            assert (ended.code == -9) == (action == "kill") or ended.code == 0
        kept += len(ends_as(one, project))
        project.run("rm", "-rf", str(project.folder))
    assert kept, "there was something that need not be done again"


def test_looking_inside_is_asked_to_stop(looks: dict[str, Look], tmp_path: Path, exhaustive: bool) -> None:
    one = looks["states"]
    every = [at for at, write in enumerate(one.writes) if write.point in ("states", "table")]
    stopped = 0
    for at in range(len(one.writes)) if exhaustive else (every[1],):
        project = one.before.copy(tmp_path / f"project-{at}")
        ended = struck(one, project, Fault("terminate", one.writes[at]))
        assert ended.code in (143, 0, -15), "stopped well; ended first; or struck before the stage listens"
        if ended.code == 143:
            stopped += 1
            begun = project.records().keys() - one.before.records().keys()
            ends = sorted(str(project.records()[digest].status) for digest in begun)
            assert ends in (["KILLED"], ["FINISHED", "KILLED"]), "the extraction, or the measurement after it"
            assert "the same command" in ended.err.splitlines()[-1]
            assert at < every[0] or finished(project), "the snapshot under way is kept"
        ends_as(one, project)
        project.run("rm", "-rf", str(project.folder))
    assert stopped


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", LOOKS)
def test_looking_inside_is_killed_at_any_time(looks: dict[str, Look], tmp_path: Path, command: str) -> None:
    """Several kills in a row, with less and less left to do; then the same command again."""
    one, dice = looks[command], random.Random(LOOKS.index(command))
    timed = one.before.copy(tmp_path / "timed")
    began = time.monotonic()
    assert kit.attempt(timed.folder, *one.words).code == 0
    seconds = time.monotonic() - began
    for number in range(10):
        project = one.before.copy(tmp_path / f"project-{number}")
        for _ in range(4):
            kit.attempt(project.folder, *one.words, seconds=dice.uniform(0.05, seconds))
            nothing_half_done_inside(project, one.after)
        ends_as(one, project)
        project.run("rm", "-rf", str(project.folder))
