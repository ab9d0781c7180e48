"""The persistent-entropy penalty: per class, whole, its controls and its in-cluster term."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from isoscope.geometry.barcodes import Selection
from isoscope.geometry.persistence import h0_bars, persistent_entropy
from isoscope.penalties import PersistentEntropy


def batch(n: int = 40, d: int = 8, classes: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(0)
    labels = torch.from_numpy(random.integers(0, classes, n))
    return torch.from_numpy(random.standard_normal((n, d))).requires_grad_(), labels


def test_it_is_the_negative_sum_of_the_classes_entropies() -> None:
    points, labels = batch()
    terms = PersistentEntropy("all", weight=0.5)(points, labels)
    wanted = [persistent_entropy(h0_bars(points.detach()[labels == c])) for c in range(2)]
    np.testing.assert_allclose(terms.entropy, wanted, rtol=1e-9)
    assert terms.penalty.item() == pytest.approx(-0.5 * sum(wanted), rel=1e-9)
    assert terms.points.tolist() == [(labels == c).sum().item() for c in range(2)]
    assert terms.bars.tolist() == terms.kept.tolist() == [n - 1 for n in terms.points.tolist()]
    np.testing.assert_allclose(terms.normalised, [h / math.log(k) for h, k in zip(wanted, terms.kept, strict=True)])
    assert not terms.entropy.requires_grad


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("rule", ["all", "c-ratio", "relative-entropy", "top-k", "random-k", "shortest-k"])
def test_its_gradient_is_that_of_finite_differences(rule: Selection, per_class: bool, compiled: bool) -> None:
    """On the CPU's code path and on that of a GPU, with tensors on the CPU."""
    penalty = PersistentEntropy(rule, weight=0.7, in_cluster=0 if rule == "all" else 0.3, per_class=per_class)
    penalty.compiled = compiled
    points, labels = batch(n=16, d=4)

    def value(one: torch.Tensor) -> torch.Tensor:
        return penalty(one, labels, torch.Generator().manual_seed(0)).penalty

    assert torch.autograd.gradcheck(value, (points,))


def cloud(kind: str, n: int, labels: torch.Tensor) -> torch.Tensor:
    points = np.random.default_rng(n).standard_normal((n, 6))
    if kind == "grid":
        points = points.round()
    if kind == "duplicates":
        points[::3] = points[0]
    if kind == "nan":
        points[labels.tolist().index(5), 2] = math.nan
    return torch.from_numpy(points).requires_grad_()


@pytest.mark.parametrize("kind", ["gaussian", "grid", "duplicates", "nan"])
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("n", [7, 64, 150])
def test_both_paths_give_the_same_terms_and_gradient_in_double_precision(kind: str, per_class: bool, n: int) -> None:
    """With a class of no point, of a point, and of two points; ties give the same tree."""
    labels = torch.from_numpy(np.random.default_rng(n).permutation([1, 2, 2, *[4, 5, 5, 5] * n][:n]))
    points = cloud(kind, n, labels)
    penalty, found = PersistentEntropy("c-ratio", in_cluster=0.3, per_class=per_class, classes=8), []
    for penalty.compiled in (True, False):
        terms = penalty(points, labels)
        found.append((*terms, *torch.autograd.grad(terms.penalty, points)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14, equal_nan=True)
    assert bool(found[0][0].isnan()) == (kind == "nan")
    assert found[0][-1].isfinite().all()


def test_the_entropy_of_equal_bars_is_at_most_that_of_all() -> None:
    even = torch.eye(14, dtype=torch.float64).requires_grad_()
    assert PersistentEntropy("all", per_class=False)(even).normalised.item() <= 1 + 1e-15


class Card(torch.Tensor):
    """A tensor that stands for one on a GPU; so does all that is computed from it."""


class Crossings(TorchFunctionMode):
    """Count copies from a card's tensors to others and back; refuse what else would make the CPU wait for the card."""

    waits = frozenset(("numpy", "item", "tolist", "cpu", "nonzero", "unique", "masked_select", "__array__"))

    def __init__(self) -> None:
        super().__init__()
        self.downloads = self.uploads = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, tensors = func.__name__, tree_leaves((args, kwargs))
        if any(isinstance(one, Card) for one in tensors):
            assert name not in self.waits, name
            assert name not in ("__bool__", "__float__", "__int__", "__index__"), name
            masks = [one for one in tensors[1:] if isinstance(one, torch.Tensor) and one.dtype == torch.bool]
            assert name not in ("__getitem__", "__setitem__") or not masks
        if name == "copy_" and not isinstance(args[0], Card) and isinstance(args[1], Card):
            self.downloads += 1
            return args[0].copy_(args[1].as_subclass(torch.Tensor))
        if name == "to" and kwargs and "non_blocking" in kwargs:
            self.uploads += 1
            return func(*args, **kwargs).as_subclass(Card)
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("options", [{"classes": 3}, {"per_class": False}, {"classes": 1, "in_cluster": 0.5}])
def test_a_card_is_waited_for_once_and_sent_to_once(options: dict[str, Any]) -> None:
    points, labels = batch(n=60, classes=3)
    penalty = PersistentEntropy("c-ratio", **options)
    terms = penalty(points, labels)
    (wanted,) = torch.autograd.grad(terms.penalty, points)
    leaf, of = points.detach().as_subclass(Card).requires_grad_(), labels.as_subclass(Card)
    penalty.compiled = False
    with Crossings() as crossings:
        terms = penalty(leaf, of)
        (found,) = torch.autograd.grad(terms.penalty, leaf)
    assert (crossings.downloads, crossings.uploads) == (1, 1)
    assert isinstance(terms.penalty, Card)
    assert not any(isinstance(one, Card) for one in terms[1:])
    torch.testing.assert_close(found.as_subclass(torch.Tensor), wanted, rtol=1e-12, atol=1e-14)


def test_the_path_of_the_cpu_would_be_refused_on_a_card() -> None:
    """The negative control."""
    points, labels = batch()
    penalty = PersistentEntropy("c-ratio", classes=2)
    with Crossings(), pytest.raises(AssertionError, match="numpy"):
        penalty(points.detach().as_subclass(Card), labels.as_subclass(Card))


def test_the_whole_cloud_is_one_class_of_all() -> None:
    points, labels = batch()
    whole = PersistentEntropy("c-ratio", per_class=False)(points, labels)
    assert whole.penalty == PersistentEntropy("c-ratio")(points, torch.zeros_like(labels)).penalty
    assert whole.points.tolist() == [40]


def test_a_step_against_it_makes_bars_more_alike() -> None:
    points, labels = batch()
    penalty = PersistentEntropy("all")
    before = penalty(points, labels)
    (gradient,) = torch.autograd.grad(before.penalty, points)
    assert (penalty(points - 0.1 * gradient, labels).entropy > before.entropy).all()


def test_the_in_cluster_term_shortens_the_bars_that_were_not_kept() -> None:
    points, labels = batch()
    lengths = []
    for weight in (0.0, 3.0):
        moved = points.detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(
            PersistentEntropy("top-k", k=2, in_cluster=weight)(moved, labels).penalty, moved
        )
        after = (moved - 0.02 * gradient).detach()
        lengths.append([np.sort(h0_bars(after[labels == c]))[:-2].mean() for c in range(2)])
    assert (np.array(lengths[1]) < np.array(lengths[0])).all()
    dropped = sum(np.sort(h0_bars(points.detach()[labels == c]))[:-2].mean() for c in range(2))
    plain, term = (PersistentEntropy("top-k", k=2, in_cluster=w)(points, labels).penalty.item() for w in (0.0, 3.0))
    assert term - plain == pytest.approx(3.0 * dropped)


def test_rare_and_absent_classes_add_nothing() -> None:
    points, _ = batch(n=6)
    labels = torch.tensor([0, 0, 0, 0, 2, 0])
    terms = PersistentEntropy("c-ratio", classes=4)(points, labels)
    assert terms.points.tolist() == [5, 0, 1, 0]
    assert terms.kept.tolist()[1:] == [0, 0, 0]
    assert terms.entropy.tolist()[1:] == [0.0, 0.0, 0.0]
    terms.penalty.backward()
    assert points.grad is not None
    assert not points.grad[4].any()


def test_an_empty_batch_has_no_penalty() -> None:
    terms = PersistentEntropy()(torch.zeros(0, 4, requires_grad=True), torch.zeros(0, dtype=torch.int64))
    assert terms.penalty.item() == 0.0


def test_random_bars_are_drawn_by_the_generator() -> None:
    points, labels = batch()
    penalty = PersistentEntropy("random-k", k=4)
    one, same, other = (
        penalty(points, labels, torch.Generator().manual_seed(seed)).penalty.item() for seed in (0, 0, 1)
    )
    assert one == same != other


@pytest.mark.parametrize(
    "points, labels, message",
    [
        (torch.zeros(3), None, r"points: expected \[points, dimensions\], got \[3\]"),
        (torch.zeros(3, 2), None, "labels: needed to tell classes apart"),
        (torch.zeros(3, 2), torch.zeros(2, dtype=torch.int64), r"labels: \[2\] for 3 points"),
        (torch.zeros(3, 2), torch.rand(3), r"labels: expected integers, got torch.float32"),
    ],
)
def test_what_is_no_batch_is_refused(points: torch.Tensor, labels: torch.Tensor | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PersistentEntropy()(points, labels)


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"selection": "top-k", "k": 0},
            "k: expected an integer of at least 1 for top-k, random-k or shortest-k, got 0",
        ),
        ({"selection": "all", "k": 3}, "k: expected .* got 3"),
        ({"weight": float("nan")}, "weight: expected a finite number, got nan"),
        ({"in_cluster": "1"}, "in_cluster: expected a finite number, got '1'"),
        ({"selection": "cratio"}, "selection: expected one of all, c-ratio, .*, got 'cratio'"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PersistentEntropy(**settings)


def test_labels_below_0_belong_to_no_class() -> None:
    points, labels = batch()
    apart = labels.clone()
    apart[::3] = -100
    told, alone = (
        PersistentEntropy("all")(points, apart),
        PersistentEntropy("all")(points[apart >= 0], apart[apart >= 0]),
    )
    assert told.penalty == alone.penalty
    nobody = PersistentEntropy("all")(points, torch.full_like(labels, -100))
    assert nobody.penalty == 0
    assert len(nobody.points) == 0


def test_a_penalty_says_its_settings() -> None:
    assert "selection='top-k', k=4, per_class=True, weight=0.5" in repr(PersistentEntropy("top-k", k=4, weight=0.5))
