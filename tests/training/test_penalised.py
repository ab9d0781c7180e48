"""Training with a penalty: its laws against training without, and the whole effective batch at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from isoscope import plugins
from isoscope.geometry.persistence import h0_bars, persistent_entropy
from isoscope.training.evaluation import evaluate
from isoscope.training.progress import DivergedError
from training_runs import (
    ENTROPY,
    PENALTIES,
    POINTS,
    Killed,
    completed,
    diverging,
    equal,
    files,
    fitted,
    kill_in,
    logged,
    make_loop,
    weights,
)

WATCH = {"layer": -1, "vectors": "first", "sample": 12, "clusters": 2}


class Called(TorchDispatchMode):
    """Names of all tensor operations, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("kind", ["all", "random", "tokens", "isoscore"])
def test_weight_0_and_watching_are_bitwise_no_penalty(tmp_path: Path, kind: str, accumulation: int) -> None:
    without = fitted(tmp_path / "without", accumulation=accumulation)
    penalty = PENALTIES[kind] | {"weight": 0.0}
    idle = fitted(tmp_path / "idle", penalty=penalty, watch=WATCH, evaluations=3, accumulation=accumulation)
    assert equal(weights(without), weights(idle))
    at_work = fitted(tmp_path / "work", penalty=PENALTIES[kind], accumulation=accumulation)
    assert not equal(weights(without), weights(at_work))
    assert logged(idle, "step/penalty"), "looked at all the same"


@pytest.mark.parametrize("kind", PENALTIES)
def test_micro_batches_have_the_gradients_of_the_large_batch(tmp_path: Path, kind: str) -> None:
    found = []
    for accumulation in (1, 4):
        loop = make_loop(tmp_path / str(accumulation), accumulation=accumulation, dropout=0.0, penalty=PENALTIES[kind])
        loop.raw_model.double()  # the points of untrained weights nearly coincide: in fp32 their bars are rounded
        loop._refer(1)
        loop.model.train()
        figures = loop.backward.add(np.arange(15), epoch=1, step=3, total=10).metrics
        gradients = {name: value.grad for name, value in loop.raw_model.named_parameters()}
        found.append((gradients, figures))
    (whole, large), (parts, small) = found
    for name, gradient in whole.items():
        difference = (parts[name] - gradient).abs().max().item()
        assert difference <= 1e-5 * max(float(gradient.abs().max()), 1e-3), name
    figures = [{name: float(one) for name, one in these.items()} for these in (small, large)]
    assert figures[0] == pytest.approx(figures[1], rel=1e-4)
    loop = make_loop(tmp_path / "without", dropout=0.0)
    loop.raw_model.double()
    loop.backward.add(np.arange(15), epoch=1, step=3, total=10)
    plain = loop.raw_model.bert.embeddings.word_embeddings.weight.grad
    assert not torch.equal(plain, whole["bert.embeddings.word_embeddings.weight"])


def test_dropout_is_the_same_in_both_passes(tmp_path: Path) -> None:
    """A batch in two halves, each computed in two passes: their points must be equal in spite of dropout."""
    loop = make_loop(tmp_path, penalty=ENTROPY, accumulation=2, dropout=0.3)
    seen: list[torch.Tensor] = []
    forward = loop.objective.forward

    def kept(*arguments: Any) -> Any:
        found = forward(*arguments)
        seen.append(found.points[loop.penalised.place].detach().clone())
        return found

    loop.objective.forward = kept
    loop.backward.add(np.arange(8), epoch=1, step=0, total=10)
    first, second, again, again_second = seen
    assert torch.equal(first, again)
    assert torch.equal(second, again_second)


def test_what_is_logged_is_the_barcode_of_the_batch(tmp_path: Path) -> None:
    loop = make_loop(tmp_path, penalty=ENTROPY, dropout=0.0, watch=WATCH)
    rows = np.arange(10)
    place = loop.penalised.place
    looked = loop.backward.add(rows, epoch=1, step=0, total=10, observed=loop.observers.places(1))
    figures = looked.metrics | loop.observers.after_update(1, looked.points)
    found = evaluate(loop.raw_model, loop.objective, "train", loop.ranks, places=[place], rows=rows).points[place]
    labels = loop.objective.owners("train", rows, place)[1]
    wanted = [persistent_entropy(h0_bars(found[labels == c])) for c in range(2)]
    assert figures["penalty"] == pytest.approx(-sum(wanted), rel=1e-4)
    for c in range(2):
        assert figures[f"entropy/class_{c}"] == pytest.approx(wanted[c], rel=1e-4)
        assert figures[f"points/class_{c}"] == (labels == c).sum()
        assert figures[f"kept/class_{c}"] == (labels == c).sum() - 1
        assert 0 < figures[f"normalised/class_{c}"] <= 1
    assert figures["step/n"] == 10
    squared = np.linalg.svd(found, compute_uv=False) ** 2
    assert figures["step/a_1"] == pytest.approx(squared[0] / squared.sum(), rel=1e-4)


def test_the_weight_rises_from_0(tmp_path: Path) -> None:
    loop = fitted(tmp_path, penalty=ENTROPY | {"warmup": 0.5})
    found = logged(loop, "step/penalty_weight")
    assert found == pytest.approx([0.5 * min(1.0, step / 6) for step in range(12)])
    assert len(logged(loop, "step/penalty_gradient_norm")) == 11, "none where the weight is 0"


def test_the_validation_split_is_scored_within_an_epoch(tmp_path: Path) -> None:
    loop = fitted(tmp_path, evaluations=3, watch=WATCH)
    at = [(step, epoch) for name, _, step, epoch in loop.log.points if name == "validation/accuracy"]
    assert at == [(0, 0), (2, None), (4, None), (6, 1), (8, None), (10, None), (12, 2)]
    for name in ("a_1", "a_3_centred", "a_1_within", "between_share", "bar_mean", "normal_cosine", "n"):
        assert len(logged(loop, f"validation/{name}")) == 7
    assert set(logged(loop, "validation/n")) == {12.0}
    assert set(logged(loop, "step/n")) == {8.0, 4.0}


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_trained_model_holds_nothing_of_its_penalty(tmp_path: Path, family: str) -> None:
    """A penalty does not change inference: the same tensors, the same operations."""
    counts, tensors = [], []
    ids = torch.arange(5, 15).reshape(2, 5)
    for name, penalty in (("none", None), ("selected", PENALTIES["selected"])):
        model = fitted(tmp_path / name, family=family, penalty=penalty, watch=WATCH).raw_model.eval()
        with torch.no_grad(), Called() as called:
            model(input_ids=ids, attention_mask=torch.ones_like(ids))
        counts.append(called.names)
        tensors.append({key: (value.shape, value.dtype) for key, value in model.state_dict().items()})
    assert counts[0] == counts[1]
    assert len(counts[0]) > 20
    assert tensors[0] == tensors[1]


def test_a_layer_beyond_the_last_is_refused(tmp_path: Path) -> None:
    loop = make_loop(tmp_path, penalty=ENTROPY | {"points": POINTS | {"layer": 3}})
    with pytest.raises(Exception, match=r"layer 3: the encoder has layers 0 to 2 \(-1 for the last\)"):
        loop.fit()


def test_a_penalty_that_is_no_number_ends_the_run_if_it_has_weight(tmp_path: Path) -> None:

    def undefined(weight: float) -> Any:
        loop = make_loop(tmp_path / str(weight), penalty=ENTROPY | {"weight": weight})
        loop.penalised.module = lambda points, labels: points.sum() * float("nan")
        loop.penalised.clouds = None
        loop.fit()
        return loop

    with pytest.raises(DivergedError, match="penalty is nan at step 1: the penalty is not defined for this batch"):
        undefined(0.5)
    assert equal(weights(undefined(0.0)), weights(fitted(tmp_path / "plain")))


@pytest.mark.parametrize("kind", PENALTIES)
def test_a_rehearsal_makes_the_golden_trace(tmp_path: Path, kind: str) -> None:
    """The golden trace that `isoscope accept` compares a finished run with."""
    settings = {"penalty": PENALTIES[kind], "watch": WATCH}
    whole = fitted(tmp_path / "whole", **settings)
    assert make_loop(tmp_path / "again", **settings).rehearse(8) == whole.progress.trace


@pytest.mark.parametrize("watch", [None, WATCH])
def test_a_loss_that_is_no_number_is_named_though_anisotropy_is_watched(tmp_path: Path, watch: Any) -> None:
    loop = make_loop(tmp_path, watch=watch, clip_norm=None)
    diverging(loop)
    with pytest.raises(DivergedError, match=r"loss is nan at step .: try a lower learning rate"):
        loop.fit()


class Remembering(nn.Module):
    """Distance from a mean of earlier points: a moving one, or that of all points since the start."""

    def __init__(self, start: torch.Tensor | None, *, all_points: bool = False) -> None:
        super().__init__()
        self.all_points = all_points
        self.mean: torch.Tensor | None
        self.register_buffer("mean", start)
        self.register_buffer("seen", torch.zeros(0, 16))
        self.register_buffer("same", None)
        self.register_buffer("counts", torch.zeros(2, 16))
        self.second = self.counts[1]  # a view: what is restored is copied into it
        self.map = nn.LazyLinear(16)

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        now = points.detach().mean(0)
        if self.all_points:
            self.seen = torch.cat([self.seen, points.detach()])
            now = self.seen.mean(0)
        if not hasattr(self, "updates"):
            self.register_buffer("updates", torch.zeros(()))
        before = 0.0 if self.same is None else self.same.mean()  # read before it is one memory with the mean again
        self.mean = now if self.mean is None else 0.9 * self.mean + 0.1 * now
        self.same = self.mean
        self.counts[1] += now
        self.updates += 1
        moved = self.map(points - self.mean).square().mean() + self.second.mean() * points.mean()
        return moved + (points - self.mean).square().mean() * (1 + 0.1 * self.updates) + before * points.mean()


@pytest.mark.parametrize("start", [torch.zeros(16), None], ids=["zeros", "None"])
@pytest.mark.parametrize("all_points", [False, True], ids=["of one size", "growing"])
def test_what_a_plugins_penalty_remembers_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: torch.Tensor | None, all_points: bool
) -> None:
    monkeypatch.setattr(plugins.PENALTIES, "own", {})
    plugins.penalty("moving")(lambda: Remembering(start, all_points=all_points))
    penalty = {"kind": "moving", "weight": 5.0, "warmup": 0.0, "points": POINTS}
    completed(tmp_path / "whole", penalty=penalty)
    with pytest.raises(Killed):
        make_loop(tmp_path / "resumed", penalty=penalty, stop=kill_in(7)).fit()
    completed(tmp_path / "resumed", penalty=penalty)
    assert files(tmp_path / "whole/work") == files(tmp_path / "resumed/work")
