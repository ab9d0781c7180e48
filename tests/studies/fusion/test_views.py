"""What the views of a study of fusions draw beyond their form: which rows, and what stands beside them or is a gap."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.base.view import View
from isoscope.studies.fusion.embedding_block import MAP, PCA, by_layer, dimensions, evidence, leaves_block
from isoscope.studies.fusion.embedding_block import pairs as cosines
from isoscope.studies.fusion.heads import AGREEMENT, BETWEEN, CONTROLS, FEW, HEADS, SUMMARIES, agreements, over_heads
from isoscope.studies.fusion.layers import LAYERS, SHARED, UNDEFINED, profile
from isoscope.studies.fusion.point_clouds import DYNAMICS, LONGEST, barcode, clouds
from isoscope.studies.fusion.probing_scores import EQUAL, HOLLOW, PROFILE
from isoscope.studies.fusion.spectra import GRADIENTS, RANKS, THEORY, response, spectra

STEPS = (0, 1, 10, 100)


def crossed(**columns: Sequence[Any]) -> pd.DataFrame:
    """Return a row per combination of these values, with a random number; the chosen epoch is of update 10."""
    table = pd.DataFrame([*product(*columns.values())], columns=[*columns])
    table = table.assign(value=np.random.default_rng(0).uniform(size=len(table)), n=40, d=8, baseline=0.25)
    return table.assign(best=table["step"] == 10).astype({"step": "Int64"}) if "step" in table else table


def drawn(view: View, *tables: pd.DataFrame) -> pd.DataFrame:
    form: Any = view.form
    found: pd.DataFrame = form.drawn(*tables)
    return found


def test_cells_without_geometry_and_without_a_number_differ_and_have_no_value() -> None:
    table = crossed(arm=("additive", "conv2d"), seed=(0, 1), layer=(0, 1), step=(*STEPS, None)).assign(metric="avg_sim")
    table = table.assign(degenerate=(table["arm"] == "additive") & (table["layer"] == 0))  # whatever its values say
    table.loc[(table["arm"] == "conv2d") & (table["layer"] == 1) & (table["step"] == 10), "value"] = np.nan
    found = drawn(LAYERS, table)
    gaps = found.groupby("gap")[["arm", "layer", "update"]].agg(list)
    assert gaps.loc[SHARED].tolist() == [["additive"] * 5, [0] * 5, ["random", *map(str, STEPS)]]
    assert gaps.loc[UNDEFINED].tolist() == [["conv2d"], [1], ["10"]]
    assert found.loc[found["gap"].notna(), "value"].isna().all()


def test_one_point_is_no_value_and_checkpoints_of_different_depth_share_an_axis() -> None:
    table = crossed(checkpoint=("encoder", "decoder"), step=(0, None), metric=("avg_sim",), layer=range(4))
    table = table.assign(low=0.0, high=1.0, vectors="first", degenerate=table["layer"] == 0)
    form = profile(("self_sim", "avg_sim"))
    assert form.drawn(table).groupby("layer")["value"].count().tolist() == [0, 4, 4, 4]
    shallow = form.drawn(table[(table["checkpoint"] == "encoder") | (table["layer"] < 3)])
    depths = shallow.groupby("checkpoint")["at"].unique()
    assert sorted(depths["encoder"]) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert sorted(depths["decoder"]) == pytest.approx([0, 0.5, 1])


def test_decisions_stand_beside_the_whole_model() -> None:
    kinds = {("dropped", 0): 0.9, ("kept", 1): 0.6, ("dropped", 1): 0.5, ("alone", 2): 0.4}
    table = crossed(arm=("additive", "fft"), seed=(0, 1), step=STEPS, kind=[*kinds])
    table["components"], table["k"] = zip(*table["kind"], strict=True)
    found = drawn(RANKS, table.assign(accuracy=[kinds[kind] for kind in table["kind"]]).drop(columns="kind"))
    parts = {kind: accuracy for kind, accuracy in kinds.items() if kind[1]}
    assert found.groupby(["components", "k"])["accuracy"].mean().to_dict() == pytest.approx(parts)
    assert found["whole"].to_numpy() == pytest.approx(0.9)


def test_principal_components_are_never_drawn_from_tsne_coordinates() -> None:
    points = crossed(arm=("additive", "fft"), seed=range(9)).assign(y=2.0, pc1=3.0, pc2=4.0)
    points = points.assign(x=points["value"])
    for view, columns in ((MAP, ["x", "y"]), (PCA, ["pc1", "pc2"])):
        form: Any = view.form
        np.testing.assert_array_equal(drawn(view, points)[[form.x, form.y]], points[columns])


def test_a_frame_of_shared_vectors_is_a_gap_and_axes_that_snapshots_share_are_no_components() -> None:
    planes = crossed(layer=(0, 1), snapshot=("step-0", "step-8"), sentence=range(9)).assign(arm="fft", seed=0, label=0)
    planes = planes.assign(pc1=planes["value"], pc2=-planes["value"], **{"class": "negative"})
    frames = crossed(layer=(0, 1), snapshot=("step-0", "step-8")).assign(explained_1=0.5, explained_2=0.2, seed=0)
    steps = frames["snapshot"].str[5:].astype(int)
    frames = frames.assign(reference="step-8", degenerate=frames["layer"] == 0, step=steps)
    found = clouds(planes, frames)
    assert found.dropna(subset="pc1")["layer"].unique().tolist() == [1]
    assert set(found.loc[found["layer"] == 0, "gap"]) == {SHARED}
    captions = {how: DYNAMICS.caption(planes, frames.assign(alignment=how)) for how in ("joint", "sign")}  # type: ignore[operator]
    assert [how for how, caption in captions.items() if "principal component" in caption] == ["sign"]


def test_heads_are_ranked_before_they_are_averaged() -> None:
    table = crossed(arm=("additive", "fft"), seed=range(3), step=(0, 10), layer=(1, 2), head=range(4))
    table = table.assign(entropy=table["value"])
    found, chosen = drawn(HEADS, table), table[table["best"]]
    for arm, own in chosen.groupby("arm"):
        values = own.sort_values(["seed", "layer"])["entropy"].to_numpy().reshape(3, 2, 4)
        cells = found[found["arm"] == arm].pivot(index="layer", columns="rank", values="value")
        np.testing.assert_allclose(cells, -np.sort(-values, axis=2).mean(0))


def test_a_barcode_has_the_longest_bars_longest_first() -> None:
    bars = crossed(arm=("a",), seed=(3, 1), moment=("chosen",), degree=(0, 1), number=range(LONGEST + 9))
    bars = bars.assign(birth=0.5, death=0.5 + bars["value"])
    found = barcode(bars)
    for degree, (_, own) in enumerate(found.groupby("degree")):
        lengths = np.sort(bars.loc[(bars["seed"] == 3) & (bars["degree"] == degree), "value"])[::-1][:LONGEST]
        np.testing.assert_allclose(own.sort_values("place")["high"] - 0.5, lengths)


def test_a_run_with_many_snapshots_in_a_phase_counts_once() -> None:
    table = crossed(arm=("fft",), seed=range(3), step=(*STEPS, None), layer=(0, 1)).assign(
        task="label", vectors="first"
    )
    table = table.assign(score=table["value"], metric="accuracy", distinct=40, degenerate=False, chance=0.5)
    table = table[~((table["seed"] > 0) & table["step"].isin((1, 10)))]  # as where probes skip snapshots
    phase = table["step"].map(lambda step: "trained" if step > 0 else None, na_action="ignore")
    floors = pd.DataFrame({"arm": ["fft"], "seed": [0], "baseline": ["bag"], "task": ["label"], "score": [0.6]})
    found = PROFILE.drawn(table.assign(phase=phase), floors)
    by_run = table[table["step"] > 0].groupby(["layer", "seed"])["score"].mean().groupby("layer").mean()
    np.testing.assert_allclose(found.loc[found["line"] == "trained", "score"], by_run)
    assert found.loc[found["line"] == "bag", ["layer", "score"]].to_numpy().tolist() == [[0, 0.6], [1, 0.6]]
    with pytest.raises(ValueError, match="no phase to draw"):
        PROFILE.drawn(table.assign(phase=None), floors)


def test_theory_follows_from_its_formula() -> None:
    flat = float(np.exp(-np.euler_gamma))
    assert THEORY["flatness"] == pytest.approx((flat, flat**2), abs=5e-4)


def test_noise_is_a_geometric_mean_its_band_a_factor_and_what_does_not_vary_is_left_out() -> None:
    table = crossed(arm=("additive", "conv2d"), seed=range(3), step=STEPS, part=("fusion", "word"))
    table = table.assign(noise=10 ** (7 * table["value"] - 2))
    table.loc[(table["arm"] == "additive") & (table["part"] == "fusion"), "noise"] = np.nan  # it has no weights
    table.loc[(table["arm"] == "conv2d") & (table["part"] == "word") & (table["seed"] == 1), "noise"] = 0.0
    found = drawn(GRADIENTS, table)
    assert list(found["arm"].unique()) == ["additive", "conv2d"], "an arm keeps its colour without a value"
    found = found.dropna(subset="noise").set_index(["part", "arm", "column"]).sort_index()
    measured = table[table["noise"] > 0]
    assert len(found) == measured.groupby(["part", "arm", "step"]).ngroups
    for (part, arm, step), own in measured.groupby(["part", "arm", "step"]):
        log, row = np.log(own["noise"]), found.loc[(part, arm, step)]
        expected = [log.mean(), log.mean() + log.std(), log.mean() - log.std()]
        assert row[["noise", "high", "low"]].tolist() == pytest.approx(np.exp(expected).tolist())


def test_zero_frequency_stands_at_the_origin_of_a_response() -> None:
    matrix = np.zeros((4, 8))
    matrix[2, 4], matrix[3, 4] = 1.0, 2.0  # where fftshift puts no frequency, and a quarter of a cycle per token
    row = {"arm": "fft", "moment": "chosen", "source": "word"}
    found = response(pd.DataFrame([row | {"magnitudes": one} for one in matrix.tolist()]))
    loud = found[found["magnitude"] > 0].set_index("magnitude")
    assert loud["tokens"].to_dict() == {1.0: 0.0, 2.0: 0.25}
    assert loud["hidden"].tolist() == [0.0, 0.0]


def test_a_spectrum_stands_beside_its_own_control_and_theory() -> None:
    named = {"flatness": 0.1, "flatness_permuted": 0.2, "dead": 0.3, "dead_permuted": 0.4}
    found = spectra(crossed(arm=("fft",), seed=(0,), step=(0,), part=("word",)).assign(**named))
    beside = found[["value", "permuted", "normal", "convolved"]].to_numpy().tolist()
    assert beside == [[0.1, 0.2, *THEORY["flatness"]], [0.3, 0.4, *THEORY["dead"]]]


def test_curves_of_attention_are_means_over_heads() -> None:
    table = crossed(arm=("fft",), seed=(0, 1), step=(0, 10), layer=(1,), head=range(4))
    found = over_heads(table.assign(**{name: place + table["value"] for place, name in enumerate(SUMMARIES)}))
    expected = table.groupby(["seed", "step"])["value"].mean().to_numpy()
    for place, name in enumerate(SUMMARIES):
        own = found[found["summary"] == name].sort_values(["seed", "column"])["value"]
        np.testing.assert_allclose(own, place + expected)


def test_of_many_pairs_of_arms_those_with_the_first_stay_and_every_control() -> None:
    for arms, pairs in (("abcde", 10), ("abcdef", 5)):
        between = pd.DataFrame([*combinations(arms, 2)], columns=["arm", "other"]).assign(differ="arms")
        controls = pd.DataFrame({"arm": [*arms], "other": [*arms], "differ": "random"})
        found = agreements(pd.concat([between, controls], ignore_index=True).assign(agreement=0.5))
        assert found.groupby("panel")["pair"].nunique().to_dict() == {BETWEEN: pairs, CONTROLS: len(arms)}
    assert found.loc[found["panel"] == BETWEEN, "pair"].str.startswith("a and ").all()


@pytest.mark.parametrize("differ, said, unsaid", [
    (["arms", "seeds", "random"], ["Do different arms", "two seeds of an arm and an arm and its random"], []),
    (["arms", "random"], ["Do different arms", "(right): an arm and its random-weights"], ["two seeds"]),
    (["seeds", "random"], ["of two models agree", "Shown: two seeds of an arm and"], ["two arms", "(left"]),
    (["random"], ["of two models agree", "Shown: an arm and its random"], ["two seeds", "two arms"]),
])  # fmt: skip
def test_the_caption_of_agreeing_heads_names_the_comparisons_that_are_drawn(
    differ: list[str], said: list[str], unsaid: list[str]
) -> None:
    rows = pd.DataFrame({"arm": "a", "other": "b", "differ": differ, "n": FEW})
    assert callable(AGREEMENT.caption)
    caption = AGREEMENT.caption(rows)
    assert [text for text in said if text not in caption] == []
    assert [text for text in unsaid if text in caption] == []
    assert ("illustration" in caption, "illustration" in AGREEMENT.caption(rows.assign(n=FEW - 1))) == (False, True)


def test_tokens_leave_the_block_of_an_arm_at_its_last_part() -> None:
    parts = {"additive": ("word", "position", "fused", "normed"), "marian": ("word", "position", "fused", "layer 1")}
    parts["plain"] = ("word",)
    table = pd.DataFrame([(arm, part) for arm, own in parts.items() for part in own], columns=["arm", "part"])
    found = [*table[leaves_block(table)].itertuples(index=False, name=None)]
    assert found == [("additive", "normed"), ("marian", "fused"), ("plain", "word")]
    (layers,) = by_layer(table)
    assert layers["layer"].tolist() == [0, 0, 1, 0]


def test_evidence_is_of_normalised_tokens_and_has_its_own_chance() -> None:
    rows = crossed(arm=("fft",), seed=(0,), step=(0, 10), part=("fused", "normed"))
    near = rows.assign(neighbours="same word", rate=0.5, chance=0.1)
    found = evidence(near, rows.assign(read="word", rate=0.75, control=0.2))
    assert set(found["part"]) == {"normed"}
    kinds = set(found[["kind", "rate", "chance"]].itertuples(index=False, name=None))
    assert kinds == {("same word", 0.5, 0.1), ("word", 0.75, 0.2)}


def test_dimensions_are_of_the_first_run_and_outliers_are_named_farthest_first() -> None:
    table = crossed(arm=("fft",), seed=(3, 1), step=(0, 10), dimension=range(20))
    means = table["dimension"].map({2: -5.0, 7: 9.0}).fillna(0.0)
    found = dimensions(table.assign(mean=means, sd=0.5, outlier=means != 0))
    assert set(found["seed"]) == {3}
    assert set(found["note"]) == {"n = 40 tokens, outliers: 2 (7, 2)"}
    assert set(found.loc[found["mark"].notna(), "dimension"]) == {2, 7}
    assert (found["high"] - found["low"] == 1.0).all()


def test_the_mean_cosine_of_tokens_leaves_out_the_diagonal() -> None:
    found = cosines(pd.DataFrame({"arm": ["fft", "fft"], "cosines": [[1.0, -0.5], [-0.5, 1.0]]}))
    assert set(found["note"]) == {"mean −0.50"}
    assert found.set_index(["one", "other"])["cosine"].to_dict() == {(0, 0): 1, (0, 1): -0.5, (1, 0): -0.5, (1, 1): 1}


def test_a_probe_of_equal_vectors_has_no_score_and_one_of_few_vectors_is_marked() -> None:
    table = crossed(arm=("fft",), seed=(0, 1), step=(0, 10, None), layer=(0, 1, 2)).assign(task="label", chance=0.5)
    table = table.assign(metric="accuracy", score=table["value"], degenerate=table["layer"] == 0)
    floors = pd.DataFrame({"arm": ["fft"], "seed": [0], "baseline": ["bag"], "task": ["label"], "score": [0.6]})
    found = PROFILE.drawn(table.assign(distinct=table["layer"].map({0: 1, 1: 3, 2: 40})), floors)
    found = found[found["line"] != "bag"].set_index("layer")
    assert found.loc[0, "score"].isna().all()
    assert (set(found.loc[0, "gap"]), set(found.loc[1, "mark"])) == ({EQUAL}, {HOLLOW})
    assert found.loc[2, ["gap", "mark"]].isna().all(axis=None)
