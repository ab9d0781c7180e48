"""An observer reads a run: whatever else it does leaves the same bytes, or ends the run with the observer's name."""

import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from isoscope import plugins
from isoscope.base.errors import InputError, RunError
from isoscope.objectives import Place
from isoscope.training.job import observers_of
from isoscope.training.observers import Context, Observer
from training_runs import ENTROPY, SETTINGS, attributes, completed, files, logged

RETURNS: dict[str, Any] = {
    "begin": None, "places": [Place(-1, "first")], "before_update": {}, "after_update": {}, "evaluated": {},
    "finish": None, "state": {},
}  # fmt: skip
"""Calls of an observer → what they return if nothing else is asked for."""


class Meddler(Observer):
    """Does `what` in the call `when`, at the second update; sees the points of the last layer."""

    name = "meddler"

    def __init__(self, when: str, what: Callable[["Meddler"], Any]) -> None:
        self.when, self.what = when, what

    def begin(self, context: Context) -> None:
        self.model, self.optimizer, self.objective = context.model, context.optimizer, context.objective

    @property
    def weight(self) -> nn.Parameter:
        parameter: nn.Parameter = self.model.base_model.embeddings.word_embeddings.weight
        return parameter

    @property
    def dropout(self) -> Any:
        return next(one for one in self.model.modules() if isinstance(one, nn.Dropout))


def meddling(name: str) -> Callable[..., Any]:
    first = getattr(Meddler, name)

    def call(self: Meddler, *given: Any) -> Any:
        first(self, *given)
        self.given = given
        update = given[0] if given and isinstance(given[0], int) else 2
        found = self.what(self) if (name, update) == (self.when, 2) else None
        return RETURNS[name] if found is None else found

    return call


for name in RETURNS:
    setattr(Meddler, name, meddling(name))


@pytest.fixture(autouse=True)
def _settings() -> Any:
    """What an observer may change for all later tests."""
    before = torch.get_num_threads(), torch.get_default_dtype(), Path.cwd(), torch.backends.mkldnn.enabled
    yield
    torch.set_num_threads(before[0])
    torch.set_default_dtype(before[1])
    os.chdir(before[2])
    torch.backends.mkldnn.enabled = before[3]
    torch.set_default_device(None)
    torch.set_grad_enabled(True)
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    torch.set_flush_denormal(False)


def run(folder: Path, observer: Observer | None) -> dict[str, bytes]:
    """The bytes of a run of ten updates; an observer's points need another forward pass, so all runs take them."""
    kept = observer or Meddler("never", lambda _: None)
    completed(folder, rows=40, epochs=2, observers=[kept], threads=None)
    return files(folder / "work")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return run(tmp_path_factory.mktemp("plain"), None)


def quietly(*does: Callable[[Meddler], Any]) -> Callable[[Meddler], None]:
    """Do it and return nothing."""

    def do(one: Meddler) -> None:
        for each in does:
            each(one)

    return do


def clear(arrays: Mapping[Any, Any]) -> None:
    for one in arrays.values():
        one[...] = 0


DRAWS: dict[str, Callable[[Meddler], None]] = {
    "torch": quietly(lambda _: torch.rand(5)),
    "torch seeded": quietly(lambda _: torch.manual_seed(7)),
    "numpy": quietly(lambda _: np.random.rand(5), lambda _: np.random.seed(3)),  # noqa: NPY002
    "python": quietly(lambda _: random.random(), lambda _: random.seed(3)),
    "dropout": quietly(lambda one: nn.functional.dropout(one.weight, 0.5)),
    "a forward pass": quietly(lambda one: one.model(input_ids=torch.tensor([[2, 5, 3]]))),
    "weights put back": quietly(lambda one: one.weight.data.add_(0.0), lambda one: one.weight.data.neg_().neg_()),
    "the points it is given": quietly(lambda one: clear(one.given[1])),
    "the scores it is given": quietly(lambda one: (clear(one.given[0].points), clear(one.given[0].columns))),
}


@pytest.mark.parametrize("call", RETURNS)
def test_what_it_draws_is_given_back_in_every_call(plain: dict[str, bytes], tmp_path: Path, call: str) -> None:
    assert run(tmp_path, Meddler(call, quietly(*(DRAWS[name] for name in ("torch", "numpy", "python"))))) == plain


@pytest.mark.parametrize("draws", DRAWS)
def test_what_it_draws_is_given_back(plain: dict[str, bytes], tmp_path: Path, draws: str) -> None:
    call = "evaluated" if "scores" in draws else "after_update"
    assert run(tmp_path, Meddler(call, DRAWS[draws])) == plain


def exchange(one: Meddler) -> None:
    one.weight.data[[5, 6]] = one.weight.data[[6, 5]]


def replace(one: Meddler) -> None:
    one.weight.data = one.weight.data * 1.5


def zero(one: Meddler) -> None:
    with torch.no_grad():
        one.weight[5, 0] += 1e-7


def last_moment(one: Meddler) -> None:
    next(iter(one.optimizer.state.values()))["exp_avg"].zero_()


def backward(one: Meddler) -> None:
    one.model(input_ids=torch.tensor([[2, 5, 3]])).logits.sum().backward()


def data(one: Meddler) -> None:
    """Change the first text of the train split."""
    one.objective.splits["train"].ids[0][...] = 5


BEFORE, AFTER, SCORED = "before_update", "after_update", "evaluated"
CHANGES: dict[str, tuple[str, Callable[[Meddler], Any], str]] = {
    "one weight a little": (AFTER, zero, "weights"),
    "weights by data": (AFTER, lambda one: one.weight.data.mul_(2.0), "weights"),
    "signs by data": (AFTER, lambda one: one.weight.data.neg_(), "weights"),
    "two words exchanged": (AFTER, exchange, "weights"),
    "another tensor as weights": (AFTER, replace, "weights"),
    "a gradient": (BEFORE, lambda one: one.weight.grad.zero_(), "gradients"),
    "a gradient by data": (BEFORE, lambda one: one.weight.grad.data.mul_(0.5), "gradients"),
    "a gradient taken away": (BEFORE, lambda one: setattr(one.weight, "grad", None), "gradients"),
    "all gradients": (BEFORE, lambda one: one.model.zero_grad(), "gradients"),
    "a backward pass": (BEFORE, backward, "gradients"),
    "a step": (BEFORE, lambda one: one.optimizer.step(), "weights"),
    "the optimiser's moments": (BEFORE, last_moment, "state of the optimiser"),
    "the peak rate": (AFTER, lambda one: one.optimizer.param_groups[0].update(peak=1.0), "settings of the optimiser"),
    "the decay": (AFTER, lambda one: one.optimizer.param_groups[0].update(weight_decay=1.0), "settings of the optimi"),
    "a hook of the optimiser": (AFTER, lambda one: one.optimizer.register_step_post_hook(print), "the optimiser"),
    "frozen weights": (AFTER, lambda one: one.weight.requires_grad_(False), "requires_grad"),
    "eval mode": (AFTER, lambda one: one.model.eval(), "train or eval mode"),
    "eval mode of a module": (AFTER, lambda one: one.dropout.eval(), "train or eval mode"),
    "a dropout rate": (AFTER, lambda one: setattr(one.dropout, "p", 0.9), "modules or hooks"),
    "a forward hook": (AFTER, lambda one: one.dropout.register_forward_hook(lambda *_: None), "modules or hooks"),
    "a hook of a weight": (AFTER, lambda one: one.weight.register_hook(lambda g: 0 * g), "modules or hooks"),
    "another forward": (AFTER, lambda one: setattr(one.dropout, "forward", lambda x: x), "modules or hooks"),
    "another module": (AFTER, lambda one: setattr(one.model, "dropout", nn.Identity()), "modules or hooks"),
    "the configuration": (AFTER, lambda one: setattr(one.model.config, "layer_norm_eps", 1.0), "configuration"),
    "the data": (SCORED, data, "the objective's data"),
    "the objective": (SCORED, lambda one: setattr(one.objective, "classes", 7), "the objective"),
    "default dtype": (AFTER, lambda _: torch.set_default_dtype(torch.float64), "torch's settings"),
    "default device": (AFTER, lambda _: torch.set_default_device("meta"), "torch's settings"),
    "threads": (AFTER, lambda _: torch.set_num_threads(torch.get_num_threads() + 1), "torch's settings"),
    "determinism": (AFTER, lambda _: torch.use_deterministic_algorithms(True), "torch's settings"),
    "gradients switched off": (SCORED, lambda _: torch.set_grad_enabled(False), "torch's settings"),
    "precision of products": (AFTER, lambda _: torch.set_float32_matmul_precision("medium"), "torch's settings"),
    "tiny numbers": (AFTER, lambda _: torch.set_flush_denormal(True), "torch's settings"),
    "kernels": (AFTER, lambda _: setattr(torch.backends.mkldnn, "enabled", False), "torch's settings"),
    "the folder": ("places", lambda _: os.chdir("/"), "torch's settings"),
    "the points of the run": ("finish", lambda one: (one.given[0] / "metrics.jsonl").write_text(""), "metrics.jsonl"),
    "its predictions": ("finish", lambda one: (one.given[0] / "predictions.parquet").unlink(), "predictions.parquet"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_it_changes_ends_the_run_with_its_name(tmp_path: Path, what: str) -> None:
    call, does, said = CHANGES[what]
    with pytest.raises(RunError, match=rf"^observer 'meddler': {call}.* changes.*{said}") as found:
        run(tmp_path, Meddler(call, quietly(does)))
    assert "\n" not in str(found.value)


JUNK: list[tuple[str, Any]] = [
    *((call, junk) for call in (AFTER,) for junk in (3, "loss", [1.0], {"a": "x"}, {1: 2.0}, {"a": None}, {"a": 1j})),
    (BEFORE, {"a": torch.ones(3)}),
    (SCORED, {"a": [1.0]}),
    (AFTER, {"step/loss": 0.0}),
    (SCORED, {"validation/loss": 0.0}),
    *(("places", junk) for junk in (3, "first", ["x"], [(1,)], [(-1, "last")], [("x", "first")], [(99, "first")],
                                    [(-99, "first")], {"a": 1})),
    *(("state", junk) for junk in (3, "x", {"a": 1.0}, {1: torch.ones(2)}, [torch.ones(2)])),
]  # fmt: skip


@pytest.mark.parametrize("call, junk", JUNK, ids=repr)
def test_junk_that_it_returns_is_one_line(tmp_path: Path, call: str, junk: Any) -> None:
    with pytest.raises(RunError, match=r"^observer 'meddler': ") as found:
        run(tmp_path, Meddler(call, lambda _: junk))
    assert "\n" not in str(found.value)


def test_a_call_that_returns_nothing_is_one_line(tmp_path: Path) -> None:
    observer = Meddler("never", lambda _: None)
    observer.after_update = lambda step, points: None  # type: ignore[method-assign, return-value, assignment]
    with pytest.raises(RunError, match=r"^observer 'meddler': after_update\(1\) returns None, expected metrics"):
        run(tmp_path, observer)


@pytest.mark.parametrize("junk", [None, 3, "norms", Meddler, {"after_update": print}])
def test_a_plugin_that_makes_no_observer_is_one_line(monkeypatch: pytest.MonkeyPatch, junk: Any) -> None:
    monkeypatch.setattr(plugins.OBSERVERS, "own", {})
    plugins.observer("norms")(lambda: junk)
    settings = SimpleNamespace(kind="norms")
    with pytest.raises(InputError, match=r"^observers\.mine: its plugin returns .*, expected an Observer$"):
        observers_of(attributes(SETTINGS), {"mine": settings})


def test_state_may_be_a_weight_of_the_model(tmp_path: Path, plain: dict[str, bytes]) -> None:
    """Tensors of the state may share memory with the model: each is saved as a copy."""
    assert run(tmp_path, Meddler("state", lambda one: {"words": one.weight, "turned": one.weight.T})) == plain


class Returns(Observer):
    """Returns a metric after updates and evaluations."""

    def __init__(self, name: str, evaluated: str = "{split}/own", updated: str = "mine/norm") -> None:
        self.name, self._evaluated, self._updated = name, evaluated, updated

    def after_update(self, step: int, points: Any) -> dict[str, float]:
        return {self._updated: 1.0}

    def evaluated(self, scored: Any, epoch: int | None) -> dict[str, float]:
        return {self._evaluated.format(split=scored.split): 1.0}


def test_no_metric_takes_the_place_of_another_observers(tmp_path: Path) -> None:
    watch = {"layer": -1, "vectors": "first", "sample": 12, "clusters": 2}
    with pytest.raises(RunError, match=r"^observer 'mine-2': after_update returns 'mine/norm', as another"):
        completed(tmp_path / "a", epochs=1, observers=[Returns("mine-1", "{split}/one"), Returns("mine-2")])
    with pytest.raises(RunError, match=r"^observer 'mine': evaluated returns 'validation/a_1', as another"):
        completed(tmp_path / "b", epochs=1, watch=watch, observers=[Returns("mine", "{split}/a_1")])
    with pytest.raises(RunError, match=r"^observer 'mine': after_update returns 'mine/norm', as evaluated does"):
        completed(tmp_path / "c", epochs=1, observers=[Returns("mine", "mine/norm")])
    with pytest.raises(RunError, match=r"evaluated\(validation\) returns 'test/own', a name of the test split"):
        completed(tmp_path / "g", epochs=1, observers=[Returns("mine", "test/own")])
    loop = completed(tmp_path / "e", epochs=1, observers=[Returns("mine", "own")])
    assert len(logged(loop, "own")) == 2
    assert logged(loop, "test/own") == [1.0]
    with pytest.raises(RunError, match=r"^an observer returns 'step/penalty', which is a metric of the run; rename it"):
        completed(tmp_path / "f", epochs=1, penalty=ENTROPY, observers=[Returns("mine", updated="step/penalty")])
    for name in ("accuracy", "test/accuracy", "validation/loss"):
        with pytest.raises(RunError, match=rf"returns '{name}', which is a metric of the run; give it another name"):
            completed(tmp_path / name, epochs=1, observers=[Returns("mine", name)])
    loop = completed(tmp_path / "d", epochs=1, watch=watch, observers=[Returns("mine")])
    assert logged(loop, "test/own") == [1.0]
