"""What a finished run's output says of itself."""

from pathlib import Path

import pytest

from finished_runs import write_metrics, write_run
from isoscope.platform.outputs import chosen_checkpoint


@pytest.mark.parametrize(
    "kept, found",
    [((1, 2, 10), "epoch-2"), ((2,), "epoch-2"), ((1, 10), None), ((), None)],
    ids=["all", "best", "others", "none"],
)
def test_the_chosen_checkpoint_is_that_of_the_best_epoch(
    tmp_path: Path, kept: tuple[int, ...], found: str | None
) -> None:
    run = write_run(tmp_path, "additive", 0)
    write_metrics(run, [{"name": "training/best_epoch", "value": 2.0, "step": 100}])
    for epoch in kept:
        (run / f"checkpoints/epoch-{epoch}").mkdir(parents=True)
    chosen = chosen_checkpoint(run)
    assert (chosen and chosen.name) == found
