"""How long runs take: arithmetic on recorded durations, with times that are known exactly."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from isoscope.base.paths import Project
from isoscope.platform.runs.durations import WIDER, History, combined, epochs_of, like, timing, updates_of
from isoscope.platform.runs.record import read

HERE = socket.gethostname()
PARAMS: dict[str, Any] = {
    "model.encoder.kind": "scratch",
    "model.encoder.layers": 2,
    "model.encoder.hidden_size": 64,
    "model.max_length": 32,
    "objective.kind": "classification",
    "penalty.kind": "none",
    "training.batch_size": 32,
    "training.epochs": 2,
    "training.fraction": 1.0,
    "training.budget": None,
    "training.learning_rate": 1e-3,
    "training.precision": "fp32",
}
CPU = {"device": "cpu", "threads": 1, "processes": 1}
MINUTE = 60_000


def write(
    folder: Path,
    number: int,
    *,
    begin: int = 2,
    each: float = 0.5,
    end: int = 1,
    updates: int = 10,
    host: str = HERE,
    environment: dict[str, Any] = CPU,
    status: str = "FINISHED",
    estimate: dict[str, float] | None = None,
    pause: int = 0,
    stage: str = "train",
    **params: Any,
) -> Path:
    """A record whose run took `begin` + `updates` × `each` + `end` seconds, and a `pause` in which it was stopped."""
    start = 1_000_000 + number * MINUTE
    run = {"digest": f"{number:064x}", "stage": stage, "study": "fusion", "task": "words", "params": PARAMS | params}
    by = {"host": host, "pid": 1, "git": {}, "environment": environment}
    first, last = start + 1000 * begin, start + 1000 * begin + round(1000 * each * updates)
    lines: list[dict[str, Any]] = [
        {"kind": "run", "t": start, **run},
        {"kind": "attempt", "t": start, **by, "estimate": estimate},
        {"kind": "metric", "t": first, "name": "validation/loss", "value": 1.0, "step": 0},
    ]
    if pause:  # the second attempt evaluates nothing at its start
        lines.append({"kind": "attempt", "t": first + 1000 * pause, **by})
        last += 1000 * pause
    lines.append({"kind": "metric", "t": last, "name": "validation/loss", "value": 0.5, "step": updates})
    lines.append({"kind": "end", "t": last + 1000 * end, "status": status})
    path = folder / ".isoscope" / "records" / f"{number:064x}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def asked(folder: Path, updates: int = 10, task: str = "words", where: dict[str, Any] = CPU, **changed: Any) -> Any:
    """The estimate for a training run of so many updates."""
    params = PARAMS | changed
    return History(Project(folder, folder)).estimate(like(task, params), updates, params, **where)


def test_a_run_is_taken_apart_into_what_is_fixed_and_each_update(tmp_path: Path) -> None:
    assert timing(read(write(tmp_path, 1))) == pytest.approx((3.0, 0.5))
    assert timing(read(write(tmp_path, 2, updates=0))) == pytest.approx((3.0, 0.0))


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "accepted", "code": "c" * 64, "digest": "d" * 64},
        {"kind": "end", "status": "FINISHED", "output": "models/other/a/seed-0", "output_md5": "f" * 32 + ".dir"},
    ],
    ids=lambda line: line["kind"],
)
def test_what_comes_after_the_end_is_no_work(tmp_path: Path, line: dict[str, Any]) -> None:
    path = write(tmp_path, 1)
    day = 86_400_000
    path.write_text(path.read_text("utf-8") + json.dumps({"t": day, **line}) + "\n", "utf-8")
    record = read(path)
    assert record.latest == day, "the line counts"
    assert timing(record) == pytest.approx((3.0, 0.5))


def test_a_pause_before_a_resume_is_no_work(tmp_path: Path) -> None:
    fixed, each = timing(read(write(tmp_path, 1, pause=3600)))
    assert fixed + 10 * each == pytest.approx(8.0)


@pytest.mark.parametrize("updates", [0, 1, 10, 1000])
def test_equal_runs_give_the_exact_time_of_any_number_of_updates(tmp_path: Path, updates: int) -> None:
    for number in range(3):
        write(tmp_path, number)
    found = asked(tmp_path, updates, **{"training.epochs": 7, "training.learning_rate": 5e-4})
    assert [found[name] for name in ("seconds", "low", "high")] == pytest.approx([3 + updates / 2] * 3)
    assert found["runs"] == 3


def test_the_interval_is_that_of_the_runs_and_wider_with_few(tmp_path: Path) -> None:
    for number, each in enumerate((0.4, 0.5, 0.7)):
        write(tmp_path, number, each=each)
        few = number < 2
        found = asked(tmp_path)
        assert (found["low"] < 7 / WIDER + 0.01) == (number == 0)
        assert found["low"] <= found["seconds"] <= found["high"]
        assert few or [found[name] for name in ("low", "seconds", "high")] == pytest.approx([7, 8, 10])


def test_only_the_newest_runs_count(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path, number, each=5.0 if number < 11 else 0.5)
    assert asked(tmp_path)["high"] == pytest.approx(8)


@pytest.mark.parametrize(
    "other",
    [
        {"host": "elsewhere"},
        {"environment": CPU | {"device": "cuda"}},
        {"environment": CPU | {"threads": 2}},
        {"status": "FAILED"},
        {"stage": "measure"},
        {"objective.kind": "masked"},
        {"penalty.kind": "cosine"},
        {"training.allocation.folds": 2},
        {"model.encoder.hidden_size": 1024},
    ],
)
def test_a_run_that_is_not_like_it_says_nothing(tmp_path: Path, other: dict[str, Any]) -> None:
    write(tmp_path, 1, **other)
    assert asked(tmp_path) is None
    write(tmp_path, 2)
    assert asked(tmp_path)["runs"] == 1


def test_runs_with_equal_settings_come_before_alike_ones(tmp_path: Path) -> None:
    write(tmp_path, 1, each=9.0, **{"model.fusion.kind": "fft"})
    assert asked(tmp_path)["seconds"] == pytest.approx(93), "alike: another fusion"
    assert asked(tmp_path, task="others")["seconds"] == pytest.approx(93), "alike: another task"
    write(tmp_path, 0)
    assert asked(tmp_path)["seconds"] == pytest.approx(8)


def test_a_larger_batch_takes_between_the_same_time_and_a_proportional_one(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, number)
    found = asked(tmp_path, **{"training.batch_size": 128})
    assert [found[name] for name in ("low", "seconds", "high")] == pytest.approx([8, 13, 23])
    assert asked(tmp_path, **{"training.batch_size": 160}) is None, "five times as large is not alike"
    less = asked(tmp_path, **{"training.batch_size": 8})
    assert [less[name] for name in ("low", "seconds", "high")] == pytest.approx([4.25, 5.5, 8])


def test_a_setting_that_is_not_given_may_be_any(tmp_path: Path) -> None:
    write(tmp_path, 1)
    assert asked(tmp_path, where={"device": None, "threads": None, "processes": 1})["runs"] == 1
    assert asked(tmp_path, where={"device": None, "threads": None, "processes": 2}) is None


def test_disk_and_memory_are_those_of_the_runs(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    output = tmp_path / ".isoscope" / "runs" / path.stem / "output"
    output.mkdir(parents=True)
    (output / "weights").write_bytes(b"0" * 1234)
    sample = {
        "kind": "metric",
        "t": 2_000_000,
        "name": "system/system_memory_usage_megabytes",
        "value": 512.5,
        "step": 0,
    }
    with path.open("a") as file:
        file.write(json.dumps(sample) + "\n")
    found = asked(tmp_path)
    assert (found["size"], found["memory"]) == (1234, 512.5)


def test_past_estimates_are_compared_with_the_truth(tmp_path: Path) -> None:
    history = History(Project(tmp_path, tmp_path))
    assert history.past() == {"runs": 0, "median_error": 0}
    for number, seconds in enumerate((8.0, 10.0, 4.0)):  # the truth is 8 s
        write(tmp_path, number, estimate={"seconds": seconds, "low": 1, "high": 20, "runs": 1})
    write(tmp_path, 7)
    write(tmp_path, 8, pause=9, estimate={"seconds": 800.0})
    write(tmp_path, 9, status="KILLED", estimate={"seconds": 800.0})
    assert History(Project(tmp_path, tmp_path)).past() == {"runs": 3, "median_error": pytest.approx(0.25)}


def test_a_pause_before_the_first_evaluation_is_no_work_either(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    first, *others = path.read_text("utf-8").splitlines()
    attempt = next(line for line in others if '"attempt"' in line)
    earlier = json.loads(attempt) | {"t": json.loads(attempt)["t"] - 3_600_000}
    path.write_text("\n".join([first, json.dumps(earlier), *others]) + "\n", "utf-8")
    assert timing(read(path)) == pytest.approx((3.0, 0.5))


@pytest.mark.parametrize(
    "changed, updates",
    [
        ({}, 8),
        ({"training.epochs": 5}, 20),
        ({"training.fraction": 0.5}, 4),
        ({"training.fraction": 1e-9}, 2),
        ({"training.budget.kind": "updates", "training.budget.number": 3}, 3),
        ({"training.budget.kind": "updates", "training.budget.number": 0}, 0),
        ({"training.budget.kind": "updates", "training.budget.number": 300}, 8),
    ],
)
def test_the_updates_follow_from_rows_batch_and_epochs(changed: dict[str, Any], updates: int) -> None:
    assert updates_of(PARAMS | changed, {"rows": 100}) == updates


@pytest.mark.parametrize("number, epochs", [(1, 1), (4, 1), (5, 2), (8, 2), (300, 2)])
def test_a_run_within_a_budget_of_updates_begins_so_many_epochs(number: int, epochs: int) -> None:
    budget = {"training.budget.kind": "updates", "training.budget.number": number}
    assert epochs_of(PARAMS | budget, {"rows": 100}) == epochs


def test_one_timing_is_widened_and_a_damaged_size_counts_as_one(tmp_path: Path) -> None:
    found = combined([((1.0, 1.0), 1.0)], 5)
    assert [found[name] for name in ("low", "seconds", "high")] == pytest.approx([6 / WIDER, 6, 6 * WIDER])
    write(tmp_path, 1, **{"model.encoder.layers": "many"})
    assert asked(tmp_path, **{"model.encoder.layers": "few"})["runs"] == 1
