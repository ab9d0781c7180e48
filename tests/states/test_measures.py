"""Each metric of a cell is that of `geometry` on its points; which cells have which metrics, and plugins' measures."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isoscope import plugins
from isoscope.base.built_in import MEASURES as EVERY
from isoscope.base.errors import InputError
from isoscope.geometry import contextuality, dimension, isotropy, persistence, separation
from isoscope.geometry.dimension import Estimate
from isoscope.geometry.moments import Floats, as_cloud, between_share, spectrum, within_classes
from isoscope.states.choices import DEFAULTS
from isoscope.states.cloud import Cell, OfAll
from isoscope.states.measure import Cells
from isoscope.states.measures import DIMENSION, measure
from isoscope.states.shown_metrics import COMPARED, MAPS, OVER_TRAINING, PROFILES
from probe_material import write_run

MEASURES = [name for name in EVERY if plugins.MEASURES[name].of == "points"]
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
    return Cell(as_cloud(points), **given | {"subsample": 32, "draws": 5, "confidence": 0.9, "seed": 0} | changes)


def words(points: Any, names: list[str], groups: Any) -> Cell:
    return cell(points, labels=None, names=names, groups=np.asarray(groups), attributes={})


def figures(name: str, made: Cell) -> dict[str, float]:
    return {one: value.value if isinstance(value, Estimate) else value for one, value in measure(name)(made).items()}


def bare(points: Floats) -> Cell:
    return cell(points, labels=None, attributes={})


SPECTRA: dict[str, Callable[[Floats, Any], Floats]] = {
    "": lambda x, of: spectrum(x, centred=False),
    "_centred": lambda x, of: spectrum(x),
    "_within": lambda x, of: spectrum(within_classes(x, of), centred=False),
}
WHOLE: dict[str, Callable[[Floats, Any], float]] = {
    **{
        f"a_{k + 1}{means}": lambda x, of, k=k, spectrum_of=spectrum_of: isotropy.shares(spectrum_of(x, of))[k]
        for means, spectrum_of in SPECTRA.items()
        for k in range(3)
    },
    "between_share": between_share,
    "a_1_floor": lambda x, of: isotropy.isotropic_floor(*x.shape),
    "participation_ratio": lambda x, of: isotropy.participation_ratio(spectrum(x)),
    "participation_ratio_unbiased": lambda x, of: isotropy.unbiased_participation_ratio(x),
    "isoscore": lambda x, of: isotropy.isoscore(isotropy.participation_ratio(spectrum(x)), D),
    "isoscore_unbiased": lambda x, of: isotropy.isoscore(isotropy.unbiased_participation_ratio(x), D),
    "effective_rank": lambda x, of: isotropy.effective_rank(spectrum(x)),
    "log_partition_isotropy": lambda x, of: isotropy.partition_isotropy(x / np.sqrt((x**2).mean())),
    "avg_sim": lambda x, of: contextuality.avg_sim(x),
    "two_nn": lambda x, of: dimension.two_nn(x),
    "mle": lambda x, of: dimension.mle(x, k=10),
    "silhouette": separation.silhouette,
    "fisher_ratio": separation.fisher_ratio,
    "centroid_distance": separation.centroid_distance,
    "linear_separability": separation.linear_separability,
    "clusters": lambda x, of: separation.clusters(x).k,
    "clusters_silhouette": lambda x, of: separation.clusters(x).silhouette,
    "arch_score": lambda x, of: separation.arch_score(x, along=LENGTH).r2,
    "arch_score_null": lambda x, of: separation.arch_score(x, along=LENGTH).null,
    "arch_score_p": lambda x, of: separation.arch_score(x, along=LENGTH).p,
}
AT_N: dict[str, Callable[[Floats, Any], float]] = {
    **{f"a_1{means}_at_n": WHOLE[f"a_1{means}"] for means in SPECTRA},
    "two_nn_at_n": WHOLE["two_nn"],
    "mle_at_n": WHOLE["mle"],
    "h0_entropy": lambda x, of: persistence.persistent_entropy(persistence.h0_bars(x)),
}
"""Metric → the function of the points and their labels that tests/geometry holds against closed forms and peers."""


def test_a_metric_is_that_of_the_cells_points_and_at_equal_n_the_mean_over_subsamples() -> None:
    points = noise() * np.arange(1, D + 1) + 4.0 * LABELS[:, None]
    made = cell(points)
    found = {metric: value for name in MEASURES for metric, value in figures(name, made).items()}
    expected = {name: metric(points, LABELS) for name, metric in WHOLE.items()}
    expected |= {
        name: float(np.mean([metric(points[rows], LABELS[rows]) for rows in made.subsamples]))
        for name, metric in AT_N.items()
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    left = {name for name in found.keys() - expected.keys() if not name.startswith("clusters_ami_")}
    assert left == {"h0_entropy_share", "repeated_share", "close_share"}
    assert found["h0_entropy_share"] == pytest.approx(found["h0_entropy"] / np.log(31))


def test_words_are_compared_with_their_own_sentences() -> None:
    names, sentences = [f"word{one % 3}" for one in range(N)], np.arange(N) // 4
    found, intra = figures("similarity", words(noise(), names, sentences)), contextuality.intra_sim(noise(), sentences)
    assert found["avg_sim"] == contextuality.avg_sim(noise(), sentences)
    apart = contextuality.self_sim(noise(), names, sentences)
    assert found["self_sim"] == apart != contextuality.self_sim(noise(), names), "not within a sentence"
    assert (found["intra_sim"], found["intra_sim_left_out"]) == (intra.published, intra.leave_one_out)
    assert set(figures("similarity", cell(noise()))) == {"avg_sim"}


def test_agreement_of_clusters_has_an_interval_over_all_sentences() -> None:
    found = measure("shape")(cell(noise() + 3.0 * np.eye(D)[LABELS]))
    label = found["clusters_ami_label"]
    assert isinstance(label, OfAll)
    assert label.low < label.value < label.high
    assert np.isnan(measure("shape")(cell(noise(30), labels=LABELS[:30], attributes={}))["clusters_ami_label"][1])
    shape = figures("shape", cell(noise() + 8.0 * np.eye(D)[LABELS]))
    assert (shape["clusters"], shape["clusters_ami_label"]) == (2, 1.0)
    assert abs(shape["clusters_ami_length"]) < 0.1


def test_n_beside_an_interval_is_that_of_what_it_is_over(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    cells = Cells(run, DEFAULTS._replace(subsample=16, draws=3, confidence=0.9))
    rows = {row["metric"]: row for row in cells.at((run.best, "mean", 1), ["shape", "intrinsic"], ["none"])}
    assert rows["clusters_ami_length"]["n"] == len(run.probe) == 32
    assert rows["two_nn_at_n"]["n"] == 16


def test_copies_of_points_are_counted_and_left_out() -> None:
    plane = np.random.default_rng(1).random((500, 2)) @ noise(2, 30)
    copies = figures("intrinsic", bare(np.concatenate([plane, plane[:50] + 1e-9])))
    assert copies["repeated_share"] == pytest.approx(50 / 550)
    assert copies["two_nn"] == pytest.approx(2.0, abs=0.25)


def test_what_a_cell_does_not_know_gives_no_figure() -> None:
    assert measure("classes")(bare(noise())) == {}
    assert measure("shape")(words(noise(), ["a"] * N, np.arange(N))) == {}
    assert "clusters_ami_label" not in measure("shape")(bare(noise()))
    rounded = figures("intrinsic", bare(np.tile(noise()[:9], (20, 1))))  # nine places: too few neighbours
    assert set(rounded) == set(DIMENSION)
    assert np.isnan(list(rounded.values())).all()


@pytest.mark.parametrize("name", MEASURES)
def test_single_precision_and_the_order_of_calls_change_no_figure(name: str) -> None:
    points = (noise() + LABELS[:, None]).astype(np.float32)
    once = measure(name)(cell(points))
    made = cell(points.astype(float))
    for other in MEASURES:
        measure(other)(made)
    assert dict(measure(name)(made)) == dict(once)
    assert np.isfinite([float(np.ravel(value)[0]) for value in once.values()]).all()


def test_measures_declare_what_they_return_and_figures_show_it() -> None:
    sentences = cell(noise(), attributes=dict.fromkeys(("length", "first_token", "second_token"), LENGTH))
    sampled = words(noise(), ["a", "b"] * (N // 2), np.arange(N) // 2)
    for name in MEASURES:
        declared = {one.name for one in plugins.MEASURES[name].metrics}
        assert declared == measure(name)(sentences).keys() | measure(name)(sampled).keys()
    shown = {*OVER_TRAINING, *COMPARED, *(metric for metric, _ in MAPS)}.union(*PROFILES.values())
    assert {"a_1_within", "isoscore_unbiased", "self_sim", "h0_entropy_share", "a_1_at_n"} <= shown
    assert shown <= {one.name for name in EVERY for one in plugins.MEASURES[name].metrics}


def test_a_measure_of_ones_own_stands_beside_these_and_the_nearest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins.MEASURES, "own", {})
    path = tmp_path / "own.py"
    function = "@measure('twice_n')\ndef twice(cell):\n    return {'n': 2 * cell.n}\n"
    path.write_text(f"from isoscope.plugins import measure\n\n\n{function}")
    plugins.load(path)
    assert measure("twice_n")(cell(noise())) == {"n": 2 * N}
    for wrong, near in (
        ("twice", "; did you mean 'twice_n'"),
        ("isotrophy", ""),
        ("intrinsics", "; did you mean 'intr"),
    ):
        with pytest.raises(InputError, match=rf"measures\.names: no measure '{wrong}'{near}"):
            measure(wrong)


def test_two_measures_return_no_metric_of_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their values would be averaged as if they were seeds."""
    monkeypatch.setattr(plugins.MEASURES, "own", {})
    plugins.measure("mine")(lambda cell: {"a_1": 5.0, "own": 1.0})
    plugins.measure("again")(lambda cell: {"own": 2.0})
    run = write_run(tmp_path)
    for names in (["anisotropy", "mine"], ["mine", "anisotropy"], ["mine", "again"]):
        said = f"measures '{names[0]}' and '{names[1]}' both return '{'own' if 'again' in names else 'a_1'}'; rename it"
        with pytest.raises(InputError, match=re.escape(said)):
            Cells(run, DEFAULTS._replace(subsample=16, draws=3)).at((run.best, "mean", 1), names, ["none"])
