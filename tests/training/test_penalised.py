"""Training with a penalty: its laws against training without, and the whole effective batch at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from isoscope.geometry.persistence import h0_bars, persistent_entropy
from isoscope.training.evaluation import evaluate
from isoscope.training.progress import DivergedError
from training_runs import diverging, equal, make_loop, weights

POINTS = {"layer": -1, "vectors": "first", "most": None}
BASE = {"weight": 0.5, "warmup": 0.0, "points": POINTS}
ENTROPY = {
    "kind": "persistent_entropy",
    "clouds": "class",
    "selection": "all",
    "k": None,
    "in_cluster": 0.0,
    **BASE,
}
KINDS: dict[str, dict[str, Any]] = {
    "all": ENTROPY,
    "selected": ENTROPY | {"selection": "c-ratio", "in_cluster": 0.1},
    "random": ENTROPY | {"selection": "random-k"},
    "shuffled": ENTROPY | {"clouds": "shuffled"},
    "tokens": ENTROPY | {"clouds": "batch", "points": {"layer": 1, "vectors": "tokens", "most": 20}},
    "mean": ENTROPY | {"points": {"layer": 0, "vectors": "mean", "most": None}},
    "cosine": {"kind": "cosine", **BASE},
    "spectrum": {"kind": "spectrum", "prior": "exponential", "rate": 0.05, "power": 1.0, **BASE},
    "isoscore": {"kind": "isoscore", "zeta": 0.2, "reference": 40, **BASE},
}
WATCH = {"layer": -1, "vectors": "first", "sample": 12, "clusters": 2}


class Called(TorchDispatchMode):
    """Names of all tensor operations, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def fitted(folder: Path, **settings: Any) -> Any:
    loop = make_loop(folder, **settings)
    loop.fit()
    return loop


def points(loop: Any, name: str) -> list[float]:
    return [value for found, value, *_ in loop.log.points if found == name]


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("kind", ["all", "random", "tokens", "isoscore"])
def test_weight_0_and_watching_are_bitwise_no_penalty(tmp_path: Path, kind: str, accumulation: int) -> None:
    without = fitted(tmp_path / "without", accumulation=accumulation)
    penalty = KINDS[kind] | {"weight": 0.0}
    idle = fitted(tmp_path / "idle", penalty=penalty, watch=WATCH, evaluations=3, accumulation=accumulation)
    assert equal(weights(without), weights(idle))
    at_work = fitted(tmp_path / "work", penalty=KINDS[kind], accumulation=accumulation)
    assert not equal(weights(without), weights(at_work))
    assert points(idle, "step/penalty"), "looked at all the same"


@pytest.mark.parametrize("kind", KINDS)
def test_micro_batches_have_the_gradients_of_the_large_batch(tmp_path: Path, kind: str) -> None:
    found = []
    for accumulation in (1, 4):
        loop = make_loop(tmp_path / str(accumulation), accumulation=accumulation, dropout=0.0, penalty=KINDS[kind])
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
    assert small == pytest.approx(large, rel=1e-4)
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
    found = evaluate(
        loop.raw_model, loop.objective, "train", device=loop.device, ranks=loop.ranks, places=[place], rows=rows
    ).points[place]
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
    found = points(loop, "step/penalty_weight")
    assert found == pytest.approx([0.5 * min(1.0, step / 6) for step in range(12)])
    assert len(points(loop, "step/penalty_gradient_norm")) == 11, "none where the weight is 0"


def test_the_validation_split_is_scored_within_an_epoch(tmp_path: Path) -> None:
    loop = fitted(tmp_path, evaluations=3, watch=WATCH)
    at = [(step, epoch) for name, _, step, epoch in loop.log.points if name == "validation/accuracy"]
    assert at == [(0, 0), (2, None), (4, None), (6, 1), (8, None), (10, None), (12, 2)]
    for name in ("a_1", "a_3_centred", "a_1_within", "between_share", "bar_mean", "normal_cosine", "n"):
        assert len(points(loop, f"validation/{name}")) == 7
    assert set(points(loop, "validation/n")) == {12.0}
    assert set(points(loop, "step/n")) == {8.0, 4.0}


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_trained_model_holds_nothing_of_its_penalty(tmp_path: Path, family: str) -> None:
    """A penalty does not change inference: the same tensors, the same operations."""
    counts, tensors = [], []
    for name, penalty in (("none", None), ("selected", KINDS["selected"])):
        loop = make_loop(tmp_path / name, family=family, penalty=penalty, watch=WATCH)
        loop.fit()
        model = loop.raw_model.eval()
        ids = torch.arange(5, 15).reshape(2, 5)
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


def test_a_penalty_that_is_no_number_ends_the_run(tmp_path: Path) -> None:
    loop = make_loop(tmp_path, penalty=ENTROPY)
    loop.penalised.module = lambda points, labels: points.sum() * float("nan")
    loop.penalised.clouds = None
    with pytest.raises(DivergedError, match="penalty is nan at step 1: the penalty is not defined for this batch"):
        loop.fit()


@pytest.mark.parametrize("kind", KINDS)
def test_a_rehearsal_makes_the_golden_trace(tmp_path: Path, kind: str) -> None:
    """The golden trace that `isoscope accept` compares a finished run with."""
    settings = {"penalty": KINDS[kind], "watch": WATCH}
    whole = fitted(tmp_path / "whole", **settings)
    assert make_loop(tmp_path / "again", **settings).rehearse(8) == whole.progress.trace


def test_a_loss_that_is_no_number_is_named_though_anisotropy_is_watched(tmp_path: Path) -> None:
    loop = make_loop(tmp_path, watch=WATCH, clip_norm=None)
    diverging(loop)
    with pytest.raises(DivergedError, match=r"loss is nan at step .: try a lower learning rate"):
        loop.fit()


def test_a_penalty_without_weight_may_be_no_number(tmp_path: Path) -> None:
    loop = make_loop(tmp_path / "idle", penalty=ENTROPY | {"weight": 0.0})
    loop.penalised.module = lambda points, labels: points.sum() * float("nan")
    loop.penalised.clouds = None
    loop.fit()
    assert equal(weights(loop), weights(fitted(tmp_path / "plain")))
