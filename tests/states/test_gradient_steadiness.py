"""Gradients of the block against sums by hand and known variances; the model is left unchanged."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fusions import FUSIONS, make
from isoscope.data.batches import collate
from isoscope.data.probe import ProbeSet
from isoscope.models import FusionBertForSequenceClassification
from isoscope.states.extract import block_gradients
from isoscope.states.trajectory import GRADIENTS
from probe_material import chosen, pieces

PREFIX = {
    "word": "word_embeddings",
    "position": "position_embeddings",
    "token_type": "token_type_embeddings",
    "norm": "LayerNorm",
    "fusion": "fusion",
}
DRAWN = {"pad_id": 0, "batches": 100, "seed": 0}


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> ProbeSet:
    return chosen(pieces(tmp_path_factory.mktemp("tokenizer")))


def model(fusion: str = "conv2d-5x5-bias-gate") -> Any:
    return make(FusionBertForSequenceClassification, FUSIONS[fusion], vocab_size=200, max_position_embeddings=40)


def by_hand(model: Any, probe: ProbeSet, batch_size: int) -> dict[str, np.ndarray]:
    """Gradients of each part, a row for each full batch, by backward()."""
    found: dict[str, list[Any]] = {}
    order = np.random.default_rng(0).permutation(len(probe.encoded.ids))
    count = len(order) // batch_size
    for rows in order[: count * batch_size].reshape(count, batch_size):
        batch = collate(probe.encoded, rows, pad_id=0)
        model.zero_grad()
        given = {name: torch.from_numpy(getattr(batch, name)) for name in batch._fields[:3]}
        F.cross_entropy(model(**given).logits, torch.from_numpy(batch.labels)).backward()
        for part, prefix in PREFIX.items():
            drawn = [
                np.zeros(parameter.numel()) if parameter.grad is None else parameter.grad.double().numpy().ravel()
                for name, parameter in model.named_parameters()
                if name.startswith(f"bert.embeddings.{prefix}")
            ]
            if drawn:
                found.setdefault(part, []).append(np.concatenate(drawn))
    model.zero_grad()
    return {part: np.stack(rows) for part, rows in found.items()}


@pytest.mark.parametrize("batch_size", [4, 12])  # 8 batches; 2, and 8 sentences over
@pytest.mark.parametrize("fusion", ["additive", "conv2d-5x5-bias-gate", "fft-residual"])
def test_mean_and_covariance_are_those_of_the_full_batches(fusion: str, batch_size: int, probe: ProbeSet) -> None:
    made = model(fusion)
    found = block_gradients(made, probe, batch_size=batch_size, **DRAWN)
    expected = by_hand(made, probe, batch_size)
    assert set(expected) == set(GRADIENTS) - ({"fusion"} if fusion == "additive" else set())
    for part, (norm, spread, n) in zip(GRADIENTS, found.astype(float), strict=True):
        if part in expected:
            assert len(expected[part]) == n == 32 // batch_size
            assert norm + spread / n == pytest.approx((expected[part].mean(0) ** 2).sum(), rel=1e-4)
            assert spread == pytest.approx(expected[part].var(0, ddof=1).sum(), rel=1e-4)
            assert spread > 0
        else:
            assert np.isnan([norm, spread, n]).all()


def test_the_squared_norm_is_that_of_the_gradient_and_not_of_its_noise(probe: ProbeSet) -> None:
    """Over draws of few batches it is on average the squared norm of all sentences' gradient; the plug-in is above."""
    made = model()
    whole = (by_hand(made, probe, 32)["word"] ** 2).sum()
    drawn = [block_gradients(made, probe, pad_id=0, batch_size=2, batches=3, seed=seed)[0] for seed in range(150)]
    norms, spreads, counts = np.array(drawn, dtype=float).T
    error = norms.std(ddof=1) / np.sqrt(len(norms))
    assert abs(norms.mean() - whole) < 3 * error
    assert (norms + spreads / counts).mean() > whole + 5 * error


def test_a_table_that_is_not_looked_at_has_the_gradient_zero(probe: ProbeSet) -> None:
    found = dict(zip(GRADIENTS, block_gradients(model("conv2d"), probe, batch_size=4, **DRAWN), strict=True))
    assert (found["token_type"][:2] == 0).all()
    assert found["word"][1] > 0


@pytest.mark.parametrize("batch_size", [17, 32, 33])
def test_fewer_than_two_full_batches_tell_nothing(batch_size: int, probe: ProbeSet) -> None:
    assert np.isnan(block_gradients(model(), probe, batch_size=batch_size, **DRAWN)).all()


def test_dropout_is_off_and_the_model_is_as_it_was(probe: ProbeSet) -> None:
    made = make(
        FusionBertForSequenceClassification,
        FUSIONS["additive"],
        vocab_size=200,
        max_position_embeddings=40,
        hidden_dropout_prob=0.5,
    )
    weights = {name: one.clone() for name, one in made.state_dict().items()}
    made.train()
    first = block_gradients(made, probe, batch_size=8, **DRAWN)
    np.testing.assert_array_equal(first, block_gradients(made.train(), probe, batch_size=8, **DRAWN))
    assert first[0, 1] > 0
    assert all(torch.equal(one, weights[name]) for name, one in made.state_dict().items())
    assert all(one.grad is None for one in made.parameters())
