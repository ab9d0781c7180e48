"""An objective per token and an observer with state from a plugin: the loop uses both by their protocol."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from isoscope import plugins
from isoscope.base.errors import RunError
from isoscope.training.loop import Loop
from training_runs import Killed, files, kill_in, make_loop

EXAMPLE = Path(__file__).parents[2] / "docs/examples/piece_length.py"
PENALTY = {"kind": "cosine", "weight": 0.1, "warmup": 0.0, "points": {"layer": -1, "vectors": "tokens", "most": 20}}


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in plugins.REGISTRIES:
        monkeypatch.setattr(registry, "own", {})
    plugins.load(EXAMPLE)


def make(folder: Path, **settings: Any) -> Loop:
    observer = plugins.OBSERVERS["norms"].factory(every=2)
    observer.name = "norms"
    factory = plugins.OBJECTIVES["piece_length"].factory
    return make_loop(folder, make=factory, observers=[observer], select="rmse", **settings)


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "work/metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("penalty", [None, PENALTY])
def test_killed_and_resumed_it_is_bitwise_the_same_with_its_observer(
    tmp_path: Path, penalty: dict[str, Any] | None
) -> None:
    whole = make(tmp_path / "whole", penalty=penalty)
    whole.test(whole.fit())
    with pytest.raises(Killed):
        make(tmp_path / "parts", penalty=penalty, stop=kill_in(6)).fit()
    rest = make(tmp_path / "parts", penalty=penalty)
    assert rest.progress.step == 3
    rest.test(rest.fit())
    assert [one for one in metrics(tmp_path / "whole") if one["name"] == "step/word_gradient_mean"]
    assert files(tmp_path / "whole/work") == files(tmp_path / "parts/work")


def test_epochs_of_unequal_length_are_refused(tmp_path: Path) -> None:
    """Else batches would be lost, and the learning rate would end above 0."""
    loop = make(tmp_path, epochs=3)
    plan = loop.objective.plan

    def shorter(split: str, epoch: int | None, rows: Any = None) -> Any:
        return plan(split, epoch, rows)[: None if epoch != 2 else -1]

    loop.objective.plan = shorter  # type: ignore[method-assign]
    with pytest.raises(RunError, match=r"objective: plans 5 batches in epoch 2, but 6 in epoch 1; a run needs"):
        loop.fit()


def test_it_learns_and_counts_tokens(tmp_path: Path) -> None:
    loop = make(tmp_path, epochs=20, learning_rate=1e-2, dropout=0.0)
    fitted = loop.fit()
    loop.test(fitted)
    found = {(one["name"], one["epoch"]): one["value"] for one in metrics(tmp_path)}
    assert found["test/rmse", fitted] == pytest.approx(found["test/loss", fitted] ** 0.5)
    assert found["test/rmse", fitted] < 0.5 * found["validation/rmse", 0]
    table = pq.read_table(tmp_path / "work/errors.parquet")
    tokens = loop.objective.weight("test", table["row"].to_numpy(), None)
    assert sum(table["squared_error"].to_pylist()) / tokens == pytest.approx(found["test/loss", fitted], rel=1e-5)
