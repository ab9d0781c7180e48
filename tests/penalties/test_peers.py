"""Other published penalties against their explicit formulas, closed forms and numerical gradients."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from isoscope.geometry.isotropy import isoscore, participation_ratio
from isoscope.geometry.moments import spectrum
from isoscope.penalties import CosineRegularization, IsoScoreStar, PersistentEntropy, SpectrumControl

ALL = [CosineRegularization(0.7), IsoScoreStar(0.7), SpectrumControl(0.7), SpectrumControl(0.7, prior="polynomial")]


def points(n: int = 12, d: int = 5) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal((n, d)) + 0.5).requires_grad_()


def with_reference(zeta: float = 0.3) -> IsoScoreStar:
    found = IsoScoreStar(0.7, zeta=zeta)
    found.reference = torch.from_numpy(np.cov(np.random.default_rng(1).standard_normal((50, 5)).T))
    return found


@pytest.mark.parametrize("penalty", [*ALL, PersistentEntropy(per_class=False)], ids=lambda one: type(one).__name__)
def test_a_batch_of_sentences_is_no_cloud_of_points(penalty: torch.nn.Module) -> None:
    """The cosine penalty of `[4, 6, 8]` was a number, with a mean cosine above 1."""
    with pytest.raises(ValueError, match=r"^points: expected \[points, dimensions\], got \[4, 6, 8\]$"):
        penalty(torch.ones(4, 6, 8))


def test_another_prior_is_refused() -> None:
    with pytest.raises(ValueError, match="prior: expected 'exponential' or 'polynomial', got 'exponental'"):
        SpectrumControl(prior="exponental")  # type: ignore[arg-type]


def test_the_cosine_penalty_is_the_sum_over_pairs() -> None:
    cloud = points()
    cosines = F.cosine_similarity(cloud[:, None], cloud[None], dim=2)
    pairs = cosines.sum() - cosines.trace()
    terms = CosineRegularization(0.7)(cloud)
    assert terms.penalty.item() == pytest.approx(0.7 * pairs.item() / 144)
    assert terms.mean_cosine.item() == pytest.approx(pairs.item() / 132)


def test_directions_at_right_angles_have_no_cosine_and_a_zero_vector_none_at_all() -> None:
    assert CosineRegularization()(torch.eye(4)).penalty.item() == 0.0
    cloud = torch.cat([torch.ones(2, 3), torch.zeros(1, 3)]).requires_grad_()
    terms = CosineRegularization()(cloud)
    assert terms.penalty.item() == pytest.approx(2 / 9)
    terms.penalty.backward()
    assert cloud.grad is not None
    assert cloud.grad.isfinite().all()
    assert not cloud.grad[2].any()


def test_isoscore_is_the_measure_of_that_name() -> None:
    cloud = points()
    wanted = isoscore(participation_ratio(spectrum(cloud.detach().numpy())), 5)
    terms = IsoScoreStar(0.7)(cloud)
    assert terms.isoscore.item() == pytest.approx(wanted)
    assert terms.penalty.item() == pytest.approx(0.7 * (1 - wanted))


def test_a_reference_is_mixed_in_as_a_covariance() -> None:
    cloud, penalty = points(), with_reference()
    assert penalty.reference is not None
    mixed = 0.7 * np.cov(cloud.detach().numpy().T) + 0.3 * penalty.reference.numpy()
    wanted = isoscore(participation_ratio(np.linalg.eigvalsh(mixed)), 5)
    assert penalty(cloud).isoscore.item() == pytest.approx(wanted)
    alone = with_reference(zeta=1.0)
    assert alone(cloud).isoscore.item() == alone(2 * cloud + 1).isoscore.item()


@pytest.mark.parametrize("prior", ["exponential", "polynomial"])
def test_a_spectrum_as_the_prior_has_it_costs_nothing(prior: Any) -> None:
    place = np.arange(4)
    wanted = np.exp(-0.1 * place**1.5) if prior == "exponential" else (place + 1.0) ** -1.5
    left = np.linalg.qr(np.column_stack([np.ones(9), np.random.default_rng(0).standard_normal((9, 4))]))[0][:, 1:]
    cloud = torch.from_numpy(3.0 * left * wanted)
    penalty = SpectrumControl(prior=prior, rate=0.1, power=1.5)
    assert penalty(cloud).penalty.item() == pytest.approx(0.0, abs=1e-20)
    assert penalty(torch.from_numpy(3.0 * left * wanted**3)).penalty.item() > 1e-3


@pytest.mark.parametrize("penalty", [*ALL, with_reference()], ids=repr)
def test_gradients_are_those_of_finite_differences(penalty: Any) -> None:
    assert torch.autograd.gradcheck(lambda one: penalty(one).penalty, (points(),))


@pytest.mark.parametrize("penalty", ALL, ids=repr)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_and_coinciding_points_give_numbers(penalty: Any, n: int) -> None:
    for cloud in (torch.ones(n, 4), torch.zeros(n, 4), torch.ones(9 * n, 4)):
        cloud.requires_grad_()
        terms = penalty(cloud)
        assert terms.penalty.isfinite()
        terms.penalty.backward()
        assert cloud.grad is not None
        assert cloud.grad.isfinite().all()


@pytest.mark.parametrize("penalty", ALL, ids=repr)
def test_what_is_no_number_is_not_hidden(penalty: Any) -> None:
    cloud = torch.ones(5, 4)
    cloud[0, 0] = math.nan
    assert penalty(cloud).penalty.isnan()
