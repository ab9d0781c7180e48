"""What the page on dynamics computes from its stored tables, on planted tables."""

import importlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).parents[1] / "docs/results"
GROUPS = [("enc", -1, "emb"), ("enc", 0, "W1"), ("enc", 0, "key"), ("enc", 1, "W1")]
FOLDS = [f"fold_{number}" for number in range(1, 9)]


class Page(NamedTuple):
    """The modules of the page."""

    claims: ModuleType
    hurting: ModuleType
    shares: ModuleType
    tables: ModuleType


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """The modules, with per-run data in an empty folder."""
    (tmp_path / "dynamics").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        patch.setattr(importlib.import_module("per_run"), "HERE", tmp_path)
        yield Page(*(importlib.import_module(f"dynamics_{name}") for name in Page._fields))


@pytest.fixture
def data(page: Page, tmp_path: Path) -> Path:
    return tmp_path / "dynamics"


def planted(folder: Path, folds: np.ndarray) -> None:
    """Store the allocation of a run by group and fold, `[groups, 8]`, and a minibatch estimator of ten times that."""
    (folder / "own").mkdir()
    keys = pd.DataFrame(GROUPS, columns=["stack", "layer", "component"]).assign(arm="masked-additive", seed=0)
    table = keys.assign(set="validation", value=folds.mean(1)).join(pd.DataFrame(folds, columns=FOLDS))
    table.to_parquet(folder / "own/folds.parquet")
    keys.assign(nats=10 * folds.mean(1)).to_parquet(folder / "own/minibatch.parquet")


def test_what_moves_all_groups_of_a_fold_alike_is_no_noise_of_a_share(page: Page, data: Path) -> None:
    scale = np.array([0.5, 0.7, 0.9, 1.0, 1.0, 1.1, 1.3, 1.5])
    planted(data, np.outer([-4.0, -3.0, -1.0, -2.0], scale))
    found = page.shares.shares("own")["masked-additive"][0]
    np.testing.assert_allclose(found.fixed, np.outer([0.4, 0.3, 0.1, 0.2], np.ones(8)))
    np.testing.assert_allclose(found.minibatch["nats"], [0.4, 0.3, 0.1, 0.2])


def test_a_share_is_that_of_the_whole_set_and_a_group_that_varies_alone_has_noise(page: Page, data: Path) -> None:
    folds = -np.random.default_rng(0).uniform(1, 3, (4, 8))
    planted(data, folds)
    found = page.shares.shares("own")["masked-additive"][0].fixed.to_numpy()
    np.testing.assert_allclose(found.mean(1), folds.mean(1) / folds.mean(1).sum())
    np.testing.assert_allclose(found.sum(0), 1.0, err_msg="the folds of all shares sum to 1")
    assert (found.std(1) > 0.02).all()


def test_the_jackknife_takes_most_of_the_noise_out_of_a_cosine(page: Page) -> None:
    """Two noisy copies of one profile: the mean of the folds' own cosines is far below 1."""
    draw, index = np.random.default_rng(0), pd.MultiIndex.from_tuples(GROUPS[1:], names=["stack", "layer", "component"])
    true = np.array([[3.0], [1.0], [2.0]])
    plain, corrected = [], []
    for _ in range(200):
        one, other = (pd.DataFrame(true + draw.normal(size=(3, 8)), index=index) for _ in range(2))
        plain.append(page.claims.cosines(one.to_numpy(), other.to_numpy()).mean())
        corrected.append(page.claims.cosine(one, other, "enc").mean())
    assert np.mean(plain) < 0.9
    assert np.mean(corrected) == pytest.approx(1, abs=0.01)
    exact = pd.DataFrame(true, index=index)
    assert page.claims.cosine(exact, 2 * exact, "enc") == pytest.approx([1])


def test_half_is_interpolated_and_a_part_that_gains_and_loses_has_none(page: Page, data: Path) -> None:
    (data / "own").mkdir()
    courses = {"W1": [-1.0, -3.0, -4.0], "emb": [-1.0, -1.0, -4.0], "LayerNorm": [-2.0, -9.0, -4.0]}
    rows = [
        {"arm": "causal-additive", "group": name, "seed": 0, "update": update, "cumulative": value}
        for name, course in courses.items()
        for update, value in zip((10, 20, 40), course, strict=True)
    ]
    pd.DataFrame(rows).to_parquet(data / "own/course.parquet")
    found = page.hurting.halves()["causal-additive"].loc[0]
    assert found["W1"] == 15
    assert found["emb"] == pytest.approx(20 + 20 / 3)
    assert np.isnan(found["LayerNorm"])


def test_more_often_compares_ranks(page: Page) -> None:
    counts = {"key": 9.0, "query": 3.0, "W1": 3.0, "W2": 1.0}
    assert page.hurting.more_often(counts, ("key", "query")) == pytest.approx((1 + 1 + 0.5 + 1) / 4 - 0.5)
    assert page.hurting.more_often(dict.fromkeys(counts, 2.0), ("key", "query")) == 0
    assert page.hurting.more_often({name: -count for name, count in counts.items()}, ("key", "query")) == -0.375


def test_hurting_ends_with_the_last_case_of_the_published_or_of_all_components(page: Page, data: Path) -> None:
    (data / "own").mkdir()
    last = {"emb": 0, "key": 30, "query": 40, "value": 90, "out": 5, "W1": 5, "W2": 5, "LayerNorm": 600}
    arms = page.hurting.ARMS
    rows = [
        {"arm": arm, "seed": seed, "counted": counted, "unit": "component", "component": name, "last": at, "hurts": at}
        for arm in arms
        for seed in (0, 1)
        for counted in ("updates", "chords")
        for name, at in last.items()
    ]
    pd.DataFrame(rows).to_parquet(data / "own/hurting.parquet")
    about = pd.DataFrame([{"arm": arm, "seed": 0, "warmup": 100, "updates": 1000} for arm in arms])
    about.to_parquet(data / "own/hurting_published.parquet")
    about.to_parquet(data / "own/learned.parquet")
    found = {(one.arm, one.text, one.counted): one for one in page.hurting.ends()}
    causal = found["causal-additive", "published components hurt only in the warm-up", "updates"]
    assert causal.values == [0.01, 0.01]
    assert causal.published == pytest.approx((8000 - 1072) / 125_000)
    assert found["causal-additive", "all components hurt only in the warm-up", "updates"].values == [-0.5, -0.5]
    assert found["masked-additive", "all components hurt after the warm-up", "updates"].values == [0.5, 0.5]
    more, later = list(page.hurting.keys_and_queries())[:2]
    assert more.published == 0.5
    assert more.values == later.values == [pytest.approx(8 / 10 - 0.5)] * 2, "value is above both"


def test_a_claim_about_layers_or_parameters_is_relative_to_both_sides(page: Page, data: Path) -> None:
    """W1 of layer 1 has twice the share of W1 of layer 0; keys have a tenth of the parameters."""
    planted(data, np.outer([-4.0, -3.0, -1.0, -6.0], np.ones(8)))
    sizes = pd.DataFrame(GROUPS, columns=["stack", "layer", "component"]).assign(parameters=[900, 100, 10, 200])
    sizes.assign(arm="masked-additive", seed=0, level="block", set="validation").to_parquet(
        data / "own/allocated.parquet"
    )
    groups, claim = page.claims.Groups, page.claims.Claim
    layers = claim("", "masked-additive", groups(("W1",), ("enc",), (1,)), groups(("W1",), ("enc",), (0,)))
    found = page.claims.found(layers, relative=True)
    np.testing.assert_allclose(found.folds, [[2 / 3] * 8])
    assert found.minibatch == [pytest.approx(2 / 3)]
    assert page.claims.found(layers).folds[0, 0] == pytest.approx(3 / 14)
    per_parameter = claim("", "masked-additive", groups(("W1",)), groups(("key",)), per_parameter=True)
    w1, key = 9 / 300, 1 / 10
    np.testing.assert_allclose(page.claims.found(per_parameter, relative=True).folds, 2 * (w1 - key) / (w1 + key))


def test_the_published_claim_is_about_the_mean_component_of_a_kind_and_no_sum(page: Page, data: Path) -> None:
    """Two feed-forward components of .10 sum to less than four of attention with .08; each is larger than each."""
    shares = {"W1": 0.10, "W2": 0.10, "query": 0.08, "key": 0.08, "value": 0.08, "out": 0.08, "emb": 0.48}
    keys = pd.DataFrame([("enc", -1 if name == "emb" else 0, name) for name in shares])
    keys.columns = ["stack", "layer", "component"]
    keys = pd.concat([keys.assign(arm="masked-additive", seed=seed) for seed in range(3)], ignore_index=True)
    values = np.array([[-share] * 8 for share in shares.values()] * 3)
    (data / "own").mkdir()
    table = keys.assign(set="validation", value=values.mean(1)).join(pd.DataFrame(values, columns=FOLDS))
    table.to_parquet(data / "own/folds.parquet")
    keys.assign(nats=values.mean(1)).to_parquet(data / "own/minibatch.parquet")
    by_text = {claim.text: claim for claim in (*page.claims.PUBLISHED, *page.claims.CLAIMS)}
    of_components = page.claims.found(by_text["MLM: a feed-forward component − an attention component"])
    np.testing.assert_allclose(of_components.folds, 0.02)
    np.testing.assert_allclose(of_components.minibatch, 0.02)
    sums = page.claims.found(by_text["MLM: feed-forward − attention"])
    np.testing.assert_allclose(sums.folds, -0.12)


def data_runs(folder: Path, by_objective: float, by_data: float) -> None:
    """Store profiles of two objectives × two data sets × three seeds, and a run of a third data set."""
    draw, rows = np.random.default_rng(0), []
    runs = [(*cell, seed) for cell in product(("masked", "causal"), ("news", "captions")) for seed in range(3)]
    for objective, data, seed in (*runs, ("masked", "finnish", 0)):
        about = {"arm": f"{data}/{objective}", "seed": seed, "objective": objective, "data": data, "size": 9}
        for place, half in enumerate(("lower", "upper")):
            effect = by_objective * (objective == "masked") + by_data * (data == "news")
            nats = -1 - (1 - 2 * place) * effect + 0.001 * draw.normal()
            rows.append(about | {"word": "trained", "component": "W1", "half": half, "nats": nats, "minibatch": -nats})
    (folder / "data").mkdir()
    pd.DataFrame(rows).to_parquet(folder / "data/profiles.parquet")


def test_distances_of_profiles(page: Page) -> None:
    profiles = np.array([[3.0, -1.0], [-6.0, 2.0], [0.0, 5.0]])
    magnitudes, signed = (page.tables.distances(profiles, name) for name in ("hellinger", "cosine"))
    assert magnitudes[0, 1] == pytest.approx(0, abs=1e-12), "the same magnitudes"
    assert magnitudes[0, 2] == pytest.approx((1 - 0.25**0.5) ** 0.5)
    assert signed[0, 1] == pytest.approx(2), "opposite"
    assert signed[0, 2] ** 2 == pytest.approx(2 + 2 / 10**0.5)


@pytest.mark.parametrize("by_objective, by_data, expected", [(0.5, 0.0, 1.0), (0.0, 0.5, -1.0), (0.3, 0.3, 0.0)])
def test_the_share_of_the_objective_is_compared_with_that_of_the_data(
    page: Page, data: Path, by_objective: float, by_data: float, expected: float
) -> None:
    data_runs(data, by_objective, by_data)
    whole = page.tables.whole(page.shares.of_part("data", "profiles"), ("masked", "causal"))
    assert set(whole["data"]) == {"news", "captions"}, "finnish has one of six runs"
    for distance in ("hellinger", "cosine"):
        found, over = page.tables.by_cells(whole, distance)
        assert len(over) == 2
        assert found.difference == pytest.approx(expected, abs=0.05)
        assert (found.least, found.conditions) == (pytest.approx(1 / 6), 2)


def test_two_data_sets_decide_nothing_however_many_seeds_agree(page: Page, data: Path) -> None:
    """Three seeds agree on a difference of 1 to within .05, which a t test over seeds would call certain."""
    data_runs(data, 0.5, 0.0)
    rows = [row for row in page.tables.decides().rows if row[0].startswith("MLM and CLM")]
    assert len(rows) == 2
    assert all(row[7].startswith("*no verdict*: 2 data conditions decide nothing") for row in rows)
    assert all(row[1] == "2 × 2" for row in rows)
