"""What each run gets under Slurm: options of sbatch, runs per job, and the time to save its state."""

from typing import Any

import pytest

from isoscope.base.errors import InputError
from isoscope.platform.executor.placement import Placement, options, sbatch_options
from isoscope.platform.executor.slurm import client


def words(given: dict[str, str] | None = None, *, device: str = "cpu", **needs: Any) -> tuple[set[str], int]:
    """Options that depend on a run's needs, and the runs per job."""
    found, each = sbatch_options(given or {}, **{"cpus": None, "gpus": None, "threads": None, **needs}, device=device)
    return set(found) - {"--job-name=isoscope", "--requeue", "--export=ALL", "--signal=B:TERM@60"}, each


def test_a_run_has_its_threads_and_a_gpu_if_it_needs_one() -> None:
    assert words() == ({"--cpus-per-task=1"}, 1)
    assert words(threads=4) == ({"--cpus-per-task=4"}, 1)
    assert words(threads=4, cpus=2.5) == ({"--cpus-per-task=3"}, 1)
    assert words(device="cuda") == ({"--cpus-per-task=1", "--gpus-per-node=1"}, 1)
    assert words(device="auto") == ({"--cpus-per-task=1"}, 1)
    assert words(device="auto", gpus=1) == ({"--cpus-per-task=1", "--gpus-per-node=1"}, 1)


def test_runs_that_share_a_gpu_are_one_job_with_the_cpus_of_all() -> None:
    assert words(device="cuda", gpus=0.25, threads=2) == ({"--cpus-per-task=8", "--gpus-per-node=1"}, 4)
    assert words(gpus=0.5) == ({"--cpus-per-task=2"}, 2)
    assert words(gpus=0.3)[1] == 3


def test_options_of_the_user_replace_ours_and_reach_sbatch_as_words() -> None:
    assert words({"cpus_per_task": "3"}, threads=8) == ({"--cpus-per-task=3"}, 1)
    assert words({"gres": "gpu:a100:1"}, device="cuda") == ({"--cpus-per-task=1", "--gres=gpu:a100:1"}, 1)
    assert words({"comment": "a; touch b", "exclusive": ""})[0] >= {"--comment=a; touch b", "--exclusive"}
    assert options("nodelist=n[1,3],time-min=5") == {"nodelist": "n[1,3]", "time_min": "5"}


@pytest.mark.parametrize("limit, seconds", [
    ("", 60), ("1", 15), ("1:30", 15), ("00:01:00", 15), ("2", 30), ("3:00", 45), ("4", 60), ("120", 60),
    ("10:00", 60), ("1:00:00", 60), ("1-0", 60), ("infinite", 60),
])  # fmt: skip
def test_a_short_time_limit_leaves_less_time_to_save_the_state(limit: str, seconds: int) -> None:
    found, _ = sbatch_options({"time": limit}, cpus=None, gpus=None, threads=None, device="cpu")
    assert f"--signal=B:TERM@{seconds}" in found


def test_a_gpu_per_run_is_one_or_a_share() -> None:
    for cluster in (None, "slurm"):
        with pytest.raises(InputError, match=r"--gpus-per-run 2: without Ray a run has one card or shares it"):
            Placement(cluster, gpus=2).check()


def test_what_starts_a_job_has_neither_the_storage_of_a_search_nor_what_places_its_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`--export=ALL` hands the environment of sbatch on to the nodes."""
    hidden = {"ISOSCOPE_SEARCH": "postgresql://ada:secret@db/search", "ISOSCOPE_CLUSTER": "slurm"}
    for name, value in (hidden | {"ISOSCOPE_HUB": "/data"}).items():
        monkeypatch.setenv(name, value)
    lines = client("env").splitlines()
    assert not [line for line in lines if line.partition("=")[0] in hidden or "secret" in line]
    assert "ISOSCOPE_HUB=/data" in lines
