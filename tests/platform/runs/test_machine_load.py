"""The machine's load in the record of a run, and that it changes nothing else."""

import time
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from isoscope.platform.runs.machine_load import LoadSampler, _parse, gpu_load
from isoscope.platform.runs.record import Record, read
from tracked_runs import start
from training_runs import files, make_loop

CPU, MEGABYTES, SHARE = (
    f"system/{name}"
    for name in ("cpu_utilization_percentage", "system_memory_usage_megabytes", "system_memory_usage_percentage")
)


def sampled(record: Record, samples: int, *, first: float = 0.1) -> dict[str, list[tuple[int, float]]]:
    """Sample a record's machine, this process busy, until there are so many; return (step, value) by metric."""
    sampler = LoadSampler(record, gpus=False, first=first, every=0.1)
    while len(points(record).get(SHARE, [])) < samples:
        pass
    sampler.stop()
    return points(record)


def points(record: Record) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for point in read(record.path).metrics:
        found.setdefault(point.name, []).append((point.step, point.value))
    return found


def test_the_load_of_cpu_and_memory_is_that_of_the_machine(tmp_path: Path) -> None:
    with start(tmp_path) as record:
        found = sampled(record, 10)
        size = record.path.stat().st_size
        time.sleep(0.4)
        assert record.path.stat().st_size == size, "a stopped sampler writes nothing more"
    times = [point.t for point in read(record.path).metrics if point.name == CPU]
    assert all(later - earlier >= 80 for earlier, later in pairwise(times))
    memory = psutil.virtual_memory()
    assert found.keys() == {CPU, MEGABYTES, SHARE}
    steps = [[step for step, _ in points] for points in found.values()]
    assert steps == [list(range(len(steps[0])))] * 3
    assert len(steps[0]) >= 3
    busy = [value for _, value in found[CPU]]
    assert 50 / (psutil.cpu_count() or 1) < sum(busy) / len(busy) <= 100
    assert found[MEGABYTES][-1][1] == pytest.approx(memory.used / 1e6, rel=0.3)
    assert found[SHARE][-1][1] == pytest.approx(100 * found[MEGABYTES][-1][1] / (memory.total / 1e6), abs=0.1)


def test_a_line_of_nvidia_smi_in_mlflows_names_and_units() -> None:
    assert dict(_parse("1, 37, 1000, 81559, 215.31")) == {
        "gpu_1_utilization_percentage": 37,
        "gpu_1_memory_usage_megabytes": 1048.576,
        "gpu_1_memory_usage_percentage": pytest.approx(1.2261, abs=1e-4),
        "gpu_1_power_usage_watts": 215.31,
    }
    assert dict(_parse("0, [N/A], 512, 1024, [N/A]")) == {
        "gpu_0_memory_usage_megabytes": pytest.approx(536.87, abs=0.01),
        "gpu_0_memory_usage_percentage": 50,
    }
    assert dict(_parse("No devices were found")) == {}


def test_without_nvidia_smi_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_load() == {}


def test_a_short_run_has_no_samples_and_a_resumed_run_counts_on(tmp_path: Path) -> None:
    with start(tmp_path) as record:
        assert sampled(record, 0, first=3600.0) == {}
        before = sampled(record, 3)[CPU]
    with Record(record.path) as again:
        after = sampled(again, len(before) + 3)[CPU]
    assert [step for step, _ in after] == list(range(len(after)))
    assert len(after) > len(before)


def test_training_beside_a_sampler_gives_the_same_bytes(tmp_path: Path) -> None:
    """Weights, metrics and golden trace, with dropout; the sampler is as busy as it can be."""
    found = []
    for name in ("alone", "sampled"):
        (folder := tmp_path / name).mkdir()
        with start(folder) as record:
            sampler = LoadSampler(record, gpus=False, first=0.001, every=0.001) if name == "sampled" else None
            make_loop(folder).fit()
            if sampler is not None:
                sampler.stop()
        found.append(files(folder / "work"))
        assert bool(read(record.path).metrics) == (name == "sampled")
    assert found[0].keys() > {"trace.json", "metrics.jsonl"}
    assert found[0] == found[1]
