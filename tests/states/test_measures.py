"""Values of each measure: closed forms, planted classes and words, other libraries, noise at its floor."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score

from isoscope import plugins
from isoscope.base.built_in import MEASURES
from isoscope.base.errors import InputError
from isoscope.geometry.dimension import Estimate
from isoscope.geometry.moments import Floats
from isoscope.states.choices import DEFAULTS
from isoscope.states.cloud import Cell, OfAll
from isoscope.states.measure import Cells
from isoscope.states.measures import measure
from isoscope.states.shown_metrics import SHOWN
from probe_material import write_run

N, D = 80, 10
LABELS = np.arange(N) % 2
LENGTH = np.random.default_rng(5).permutation(N) % 4


def noise(n: int = N, d: int = D, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((n, d))


def cell(points: Any, **changes: Any) -> Cell:
    given: dict[str, Any] = {
        "labels": LABELS,
        "groups": np.arange(len(points)),
        "names": None,
        "attributes": {"length": LENGTH},
    }
    return Cell(points, **given | {"subsample": 32, "draws": 5, "confidence": 0.9, "seed": 0} | changes)


def words(points: Any, names: list[str], groups: Any) -> Cell:
    return cell(points, labels=None, names=names, groups=np.asarray(groups), attributes={})


def figures(name: str, made: Cell) -> dict[str, float]:
    return {one: value.value if isinstance(value, Estimate) else value for one, value in measure(name)(made).items()}


def axes(k: int, d: int = D) -> Floats:
    """Points on k of d axes, twice on either side: k equal variances, and no mean."""
    return np.concatenate([np.eye(d)[:k], -np.eye(d)[:k]] * 2)


def bare(points: Floats) -> Cell:
    return cell(points, labels=None, attributes={})


@pytest.mark.parametrize("k", [1, 4, D])
def test_equal_variances_have_their_number_as_rank_and_share(k: int) -> None:
    found = figures("anisotropy", bare(axes(k))) | figures("isoscore", bare(axes(k)))
    assert found["a_1"] == found["a_1_centred"] == pytest.approx(1 / k)
    assert found["a_3"] == pytest.approx(1 / k if k >= 3 else 0.0, abs=1e-12)
    assert [found["participation_ratio"], found["effective_rank"]] == pytest.approx([k, k])
    assert found["isoscore"] == pytest.approx((k - 1) / (D - 1), abs=1e-12)
    assert found["log_partition_isotropy"] == pytest.approx(
        0.0 if k == D else np.log(2 * k / (2 * k - 2 + 2 * np.cosh(np.sqrt(D))))
    )
    assert "between_share" not in found
    assert not any(name.endswith("_within") for name in found)


def test_noise_stands_at_the_floor_and_a_cone_above_it() -> None:
    for n, d in ((400, 40), (100, 200)):
        found = figures("anisotropy", bare(noise(n, d)))
        assert 0.92 < found["a_1"] / found["a_1_floor"] < 1.0  # Marchenko and Pastur's edge is reached from below
    assert figures("isoscore", bare(noise(400, 40)))["participation_ratio_unbiased"] == pytest.approx(40, rel=0.03)
    found = figures("anisotropy", cell(noise() + 10.0))
    assert found["a_1"] > 0.9 > 0.4 > found["a_1_centred"]


def test_shares_are_those_of_scikit_learns_principal_components() -> None:
    points = noise() * np.arange(1, D + 1) + 5.0 * LABELS[:, None]
    found = figures("anisotropy", cell(points))
    shares = PCA().fit(points).explained_variance_ratio_
    assert [found[f"a_{k}_centred"] for k in (1, 2, 3)] == pytest.approx(shares[:3])
    means = np.stack([points[one == LABELS].mean(0) for one in (0, 1)])[LABELS]
    within = PCA().fit(points - means)
    assert found["a_1_within"] == pytest.approx(within.explained_variance_ratio_[0])
    assert found["between_share"] == pytest.approx((means - points.mean(0)).var(0).sum() / points.var(0).sum())


def test_words_are_alike_where_they_were_planted_alike() -> None:
    """Sixteen words in twenty sentences of four: a word at each place of four sentences, its vector its own."""
    sentences, names = np.arange(N) // 4, [f"word{one % 16}" for one in range(N)]
    by_word = figures("similarity", words(np.eye(16)[np.arange(N) % 16], names, sentences))
    assert by_word["self_sim"] == 1.0
    assert by_word["intra_sim"] == pytest.approx(0.5)  # of four orthogonal words: 1/√4
    assert by_word["intra_sim_left_out"] == pytest.approx(0.0, abs=1e-12)
    pairs = N * N - N * 4
    assert by_word["avg_sim"] == pytest.approx(N * 4 / pairs)  # four occurrences of each word elsewhere
    by_sentence = figures("similarity", words(np.eye(20)[sentences], names, sentences))
    assert (by_sentence["self_sim"], by_sentence["intra_sim"], by_sentence["avg_sim"]) == pytest.approx((0, 1, 0))
    assert by_sentence["intra_sim_left_out"] == pytest.approx(1.0)
    assert set(figures("similarity", cell(noise()))) == {"avg_sim"}


def test_the_dimension_of_a_plane_is_two_wherever_it_lies() -> None:
    plane = np.random.default_rng(1).random((500, 2)) @ noise(2, 30)
    found = figures("intrinsic", cell(plane, labels=None, subsample=300))
    shares = {name: found.pop(name) for name in ("repeated_share", "close_share")}
    assert shares["repeated_share"] == 0
    assert shares["close_share"] < 0.03
    for name, value in found.items():
        assert value == pytest.approx(2.0, abs=0.25), name
    full = figures("intrinsic", bare(noise(500, 30)))
    assert min(full[name] for name in found) > 8
    copies = figures("intrinsic", bare(np.concatenate([plane, plane[:50] + 1e-9])))
    assert copies["repeated_share"] == pytest.approx(50 / 550)
    assert copies["two_nn"] == pytest.approx(2.0, abs=0.25)
    rounded = figures("intrinsic", bare(np.tile(plane[:9], (20, 1))))  # nine places: too few neighbours
    assert set(rounded) == set(full)
    assert np.isnan(list(rounded.values())).all()


def test_the_bars_of_a_simplex_are_even() -> None:
    found = figures("homology", bare(np.eye(20)))
    assert found["h0_entropy"] == pytest.approx(np.log(19))
    assert found["h0_entropy_share"] == pytest.approx(1.0)
    few = measure("homology")(bare(np.eye(64)))
    assert few["h0_entropy"] == pytest.approx((np.log(31),) * 3)  # 32 points of the 64
    uneven = figures("homology", bare(2.0 ** np.arange(20)[:, None] * np.eye(20)))
    assert uneven["h0_entropy_share"] < 0.7


def test_planted_classes_are_apart_and_permuted_ones_are_not() -> None:
    points = noise() + 8.0 * np.eye(D)[LABELS]
    found = figures("classes", cell(points))
    assert found["linear_separability"] == 1.0
    assert found["silhouette"] == pytest.approx(silhouette_score(points, LABELS))
    assert found["centroid_distance"] == pytest.approx(np.sqrt(2) * 8 / np.sqrt(D), rel=0.1)
    share = figures("anisotropy", cell(points))["between_share"]
    assert found["fisher_ratio"] == pytest.approx(share / (1 - share))
    shape = figures("shape", cell(points))
    assert (shape["clusters"], shape["clusters_ami_label"]) == (2, 1.0)
    assert abs(shape["clusters_ami_length"]) < 0.1
    other = np.random.default_rng(2).permutation(LABELS)
    chance = figures("classes", cell(points, labels=other))
    assert abs(chance["silhouette"]) < 0.1
    assert chance["fisher_ratio"] < 0.1
    assert abs(figures("shape", cell(points, labels=other))["clusters_ami_label"]) < 0.1


def test_agreement_of_clusters_has_an_interval_over_all_sentences() -> None:
    found = measure("shape")(cell(noise() + 3.0 * np.eye(D)[LABELS]))
    label = found["clusters_ami_label"]
    assert isinstance(label, OfAll)
    assert label.low < label.value < label.high
    assert np.isnan(measure("shape")(cell(noise(30), labels=LABELS[:30], attributes={}))["clusters_ami_label"][1])


def test_n_beside_an_interval_is_that_of_what_it_is_over(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    cells = Cells(run, DEFAULTS._replace(subsample=16, draws=3, confidence=0.9))
    rows = {row["figure"]: row for row in cells.measured(run.best, "mean", 1, ["shape", "intrinsic"])}
    assert rows["clusters_ami_length"]["n"] == len(run.probe) == 32
    assert rows["two_nn_at_n"]["n"] == 16


def test_an_arch_is_told_from_a_blob() -> None:
    angle = np.linspace(0, np.pi, N)
    arch = np.pad(np.stack([2 * np.cos(angle), np.sin(angle)], 1), ((0, 0), (0, D - 2))) + 0.05 * noise()
    found, blob = figures("shape", bare(arch)), figures("shape", bare(noise()))
    assert found["arch_score"] > 0.9 > 0.2 > found["arch_score_null"]
    assert found["arch_score_p"] == 1 / 40
    assert blob["arch_score_p"] > 1 / 40


def test_what_a_cell_does_not_know_gives_no_figure() -> None:
    assert measure("classes")(bare(noise())) == {}
    assert measure("shape")(words(noise(), ["a"] * N, np.arange(N))) == {}
    assert "clusters_ami_label" not in measure("shape")(bare(noise()))


@pytest.mark.parametrize("name", MEASURES)
def test_single_precision_and_the_order_of_calls_change_no_figure(name: str) -> None:
    points = (noise() + LABELS[:, None]).astype(np.float32)
    once = measure(name)(cell(points))
    made = cell(points.astype(float))
    for other in MEASURES:
        measure(other)(made)
    assert dict(measure(name)(made)) == dict(once)
    assert np.isfinite([float(np.ravel(value)[0]) for value in once.values()]).all()


def test_every_metric_that_figures_show_is_one_of_its_measure() -> None:
    sentences = cell(noise(), attributes={"length": LENGTH, "first_token": LENGTH})
    sampled = words(noise(), ["a", "b"] * (N // 2), np.arange(N) // 2)
    assert SHOWN.keys() == MEASURES.keys()
    for name, shown in SHOWN.items():
        asked = {*shown.profile, *shown.curves, *shown.compared, *(metric for metric, _ in shown.maps)}
        assert asked <= measure(name)(sentences).keys() | measure(name)(sampled).keys()


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a plugin's measure for one test."""
    monkeypatch.setattr(plugins.MEASURES, "own", {})
    path = tmp_path / "own.py"
    function = "@measure('twice_n')\ndef twice(cell):\n    return {'n': 2 * cell.n}\n"
    path.write_text(f"from isoscope.plugins import measure\n\n\n{function}")
    plugins.load(path)


@pytest.mark.usefixtures("own")
def test_a_measure_of_ones_own_stands_beside_these() -> None:
    assert measure("twice_n")(cell(noise())) == {"n": 2 * N}
    with pytest.raises(InputError, match="no measure 'twice'; did you mean 'twice_n'"):
        measure("twice")


def test_a_misspelt_measure_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"measures\.names: no measure 'isotrophy'"):
        measure("isotrophy")
    with pytest.raises(InputError, match="no measure 'intrinsics'; did you mean 'intrinsic'"):
        measure("intrinsics")
