"""Tables of the embedding block show planted words, positions, spectra, kernels, gradients and dimensions."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from fusions import CONV2D, THREE
from isoscope.geometry.moments import Floats
from isoscope.models.embeddings import build_fusion
from isoscope.states import block
from isoscope.states.hidden_states import kernel
from isoscope.states.trajectory import Trajectory
from probe_material import CLUSTERED, CLUSTERED_D, SNAPSHOTS, by_position, by_word, planted, token_table

LENGTH = 9
TOKENS = token_table(6, LENGTH, 7)
SENTENCE, POSITION, TOKEN, END = TOKENS.values()


def noise(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape)


def run(folder: Path, tokens: Any = TOKENS, **arrays: Any) -> Trajectory:
    """The same arrays at each snapshot."""
    return planted(folder, {one.name: {"first": noise(1, 6, 3), **arrays} for one in SNAPSHOTS}, tokens=tokens)


def rows(table: pd.DataFrame, **where: Any) -> pd.DataFrame:
    for column, value in where.items():
        table = table[table[column] == value]
    return table


def test_cosines_of_one_hot_words_and_positions(tmp_path: Path) -> None:
    """[CLS] and [SEP] are one word of vectors that agree with all: they would show in any pair they stood in."""
    word, position = np.eye(100)[TOKEN], np.eye(LENGTH)[POSITION]
    word[END], position[END] = 1.0, 1.0
    parts = {"block_word": word, "block_position": position, "block_normed": noise(len(TOKEN), 2000)}
    table = block.cosine_table(run(tmp_path, **parts))
    found = table[table["snapshot"] == "step-5"].set_index(["part", "pairs"])["cosine"]
    assert found["word", "same word"] == found["position", "same position"] == 1.0
    for pairs in ("same position", "neither"):
        assert found["word", pairs] == 0.0
    for pairs in ("same word", "neither"):
        assert found["position", pairs] == 0.0
    assert found["normed"].abs().max() < 4 / np.sqrt(2000)
    assert "fused" not in set(table["part"])


def test_pairs_are_counted_as_by_hand(tmp_path: Path) -> None:
    table = block.cosine_table(run(tmp_path, block_word=noise(len(TOKEN), 4)))
    count = dict.fromkeys(("all", "same position", "same word", "neither"), 0)
    inner = np.flatnonzero(~END)
    for place, one in enumerate(inner):
        for other in inner[place + 1 :]:
            if SENTENCE[one] != SENTENCE[other]:
                apart, same = abs(POSITION[one] - POSITION[other]), TOKEN[one] == TOKEN[other]
                count["all"] += 1
                count["same position"] += apart == 0 and not same
                count["same word"] += same and apart > 0
                count["neither"] += not same and apart > block.NEAR
    assert rows(table, snapshot="step-0").set_index("pairs")["n"].to_dict() == count
    assert min(count.values()) > 20
    alone = {name: values[:LENGTH] for name, values in TOKENS.items()}
    table = block.cosine_table(run(tmp_path / "alone", alone, block_word=noise(LENGTH, 4)))
    assert (table["n"] == 0).all()
    assert table["cosine"].isna().all()


def test_a_run_without_a_block_has_empty_tables(tmp_path: Path) -> None:
    made = run(tmp_path)
    tables = [block.cosine_table(made), block.spectrum_table(made, seed=0), block.kernel_table(made)]
    for table in (*tables, block.gradient_table(made), block.dimension_table(made), neighbours(made)):
        assert table.empty


def test_a_spectrum_counts_where_another_order_of_the_axes_changes_it(tmp_path: Path) -> None:
    """A wave stands out in the axes' own order alone; noise is the same in all."""
    wave = np.cos(2 * np.pi * 5 * np.arange(64) / 64 + noise(len(TOKEN), 1)) + 0.01 * noise(len(TOKEN), 64)
    bound = np.fft.irfft(np.fft.rfft(noise(400, 512)) * np.fft.rfft(noise(400, 512, seed=1)), 512)
    parts = {"block_word": noise(400, 512), "block_fused": bound, "block_normed": wave}
    table = block.spectrum_table(run(tmp_path, **parts), seed=0)
    word, fused, normed = (rows(table, snapshot="random", part=part).iloc[0] for part in ("word", "fused", "normed"))
    assert word["flatness"] == pytest.approx(np.exp(-np.euler_gamma), rel=0.03)
    assert word["flatness_permuted"] == pytest.approx(word["flatness"], rel=0.02)
    assert fused["flatness"] == pytest.approx(np.exp(-2 * np.euler_gamma), rel=0.05)
    assert normed["flatness"] < 0.01 < 0.3 < normed["flatness_permuted"]
    assert normed["dead"] > 0.9 > 0.3 > normed["dead_permuted"]
    pd.testing.assert_frame_equal(table, block.spectrum_table(Trajectory(tmp_path), seed=0))


def test_magnitudes_are_numpys_and_a_tone_stands_at_its_frequency(tmp_path: Path) -> None:
    tone = np.cos(2 * np.pi * 5 * np.arange(64) / 64) + 1e-3 * noise(len(TOKEN), 64)
    table = block.magnitude_table(run(tmp_path, block_word=noise(len(TOKEN), 64), block_fused=tone))
    assert table["snapshot"].unique().tolist() == ["step-0", "step-5"]
    fused = rows(table, part="fused", snapshot="step-5").set_index("frequency")["magnitude"]
    assert fused.idxmax() == 5
    assert fused[5] == pytest.approx(31.0, rel=0.05), "all there is, over a mean of 1"
    word = rows(table, part="word", snapshot="step-0").set_index("frequency")["magnitude"]
    power = (np.abs(np.fft.rfft(noise(len(TOKEN), 64))) ** 2).mean(0)[1:32] ** 0.5
    assert word.tolist() == pytest.approx((power / power.mean()).tolist())


@pytest.mark.parametrize("sources", [["position", "word"], THREE])
def test_a_kernels_energy_goes_by_the_fusions_own_order_of_sources(tmp_path: Path, sources: list[str]) -> None:
    fusion = build_fusion(CONV2D | {"sources": sources}, hidden_size=8, causal=False, init_std=0.02)
    places = {"word": (1, 1), "token_type": (0, 1), "position": (1, 2)}  # itself, a token away, a coordinate away
    sizes = {"word": 1.0, "token_type": 2.0, "position": 3.0}
    with torch.no_grad():
        fusion.weight.zero_()
        for number, name in enumerate(fusion.sources):
            fusion.weight[number, places[name][0], places[name][1]] = sizes[name]
    weights = kernel({f"bert.embeddings.fusion.{name}": one for name, one in fusion.state_dict().items()})
    table = block.kernel_table(run(tmp_path, **weights))
    assert table["snapshot"].unique().tolist() == ["step-0", "step-5", "step-9"]  # not of the twin
    single = rows(block.weight_table(Trajectory(tmp_path)), snapshot="step-5").set_index("source")
    loud = single[single["weight"] != 0]
    assert {name: (row["token"], row["hidden"]) for name, row in loud.iterrows()} == {
        name: (places[name][0] - 1, places[name][1] - 1) for name in sources
    }
    found = rows(table, snapshot="step-5").set_index("source")
    total = sum(sizes[name] ** 2 for name in sources)
    for source, column in {"word": "centre", "token_type": "tokens", "position": "hidden"}.items():
        if source in sources:
            assert found.loc[source, column] == pytest.approx(sizes[source] ** 2 / total)
    assert found[["centre", "hidden", "tokens"]].to_numpy().sum() == pytest.approx(1.0)


def test_the_noise_of_a_gradient_is_its_variance_over_its_mean(tmp_path: Path) -> None:
    drawn = np.array([[2.0, 8.0, 9.0], [4.0, 1.0, 9.0], [0.0, 0.0, 9.0], [-1.0, 3.0, 9.0], [np.nan, np.nan, np.nan]])
    table = block.gradient_table(run(tmp_path, block_gradient=drawn))
    assert table["snapshot"].unique().tolist() == ["step-0", "step-5", "step-9"]
    found = rows(table, best=True).set_index("part")
    assert found["noise"].dropna().to_dict() == {"word": 4.0, "position": 0.25}
    assert found.index.tolist() == ["word", "position", "token_type", "norm"]  # no fusion
    assert found.loc["norm", ["variance", "n"]].tolist() == [3.0, 9]


def test_dimensions_are_described_as_scipy_describes_them_and_the_odd_ones_out_are_marked(tmp_path: Path) -> None:
    points = noise(800, 60)
    points[:, 7] += 30.0
    points[:, 9] *= 25.0
    points[:, 11] = points[:, 11] ** 2 / np.sqrt(2) - np.sqrt(0.5)  # skewed, but no outlier in mean or sd
    points[:, 13] = 0.0  # says nothing: its sd is one
    table = block.dimension_table(run(tmp_path, block_normed=points))
    assert table["snapshot"].unique().tolist() == ["step-0", "step-5"]
    found = rows(table, snapshot="step-5").set_index("dimension")
    assert np.flatnonzero(found["outlier"].to_numpy()).tolist() == [7, 9, 13]
    single = points.astype(np.float32).astype(float)
    np.testing.assert_allclose(found["mean"], single.mean(0), atol=1e-12)
    np.testing.assert_allclose(found["sd"], stats.tstd(single), rtol=1e-9)
    others = [one for one in range(60) if one != 13]
    scale = (799 / 800) ** np.array([1.5, 2.0])  # scipy divides by the sd of n, we by that of n − 1
    np.testing.assert_allclose(found["skewness"][others], scale[0] * stats.skew(single[:, others]), rtol=1e-7)
    kurtosis = scale[1] * stats.kurtosis(single[:, others], fisher=False)
    np.testing.assert_allclose(found["kurtosis"][others], kurtosis, rtol=1e-7)
    assert found.loc[13, ["skewness", "kurtosis"]].tolist() == [0.0, 0.0]
    only = SNAPSHOTS[1]  # both the first and the chosen snapshot: it is described once
    once = planted(tmp_path / "once", {only.name: {"block_normed": points}}, snapshots=[only])
    assert len(block.dimension_table(once)) == 60


SENTENCE_OF, POSITION_OF, TOKEN_OF, END_OF = CLUSTERED.values()
INNER = np.flatnonzero(~END_OF)


def neighbours(made: Trajectory) -> pd.DataFrame:
    return block.neighbour_table(made, k=5, confidence=0.95)


def test_neighbours_are_what_was_planted_and_elsewhere_chance(tmp_path: Path) -> None:
    table = neighbours(run(tmp_path, CLUSTERED, block_fused=by_position(), block_normed=by_word()))
    assert set(table["n"]) == {len(INNER)}
    rate = table[table["best"]].set_index(["part", "neighbours"])
    assert rate.loc[("normed", "same word"), "rate"] > 0.95
    assert rate.loc[("fused", "same position"), "rate"] > 0.95
    for place in (("normed", "same position"), ("fused", "same word")):
        assert rate.loc[place, "rate"] == pytest.approx(rate.loc[place, "chance"], abs=0.1)
    assert ((table["low"] <= table["rate"]) & (table["rate"] <= table["high"])).all()
    assert (table["high"] - table["low"]).max() < 0.3
    inner = SENTENCE_OF[INNER][:, None] != SENTENCE_OF[INNER]
    for name, values in (("same word", TOKEN_OF), ("same position", POSITION_OF)):
        same = values[INNER][:, None] == values[INNER]
        assert rate.loc[("normed", name), "chance"] == pytest.approx(same[inner].mean())


def test_each_layer_is_read_on_its_own(tmp_path: Path) -> None:
    word, position = (np.random.default_rng(seed).standard_normal((100, CLUSTERED_D)) for seed in (3, 4))
    own, place = word[TOKEN_OF], position[POSITION_OF]
    layers = np.stack([own + place, own, noise(SENTENCE_OF.size, CLUSTERED_D)])
    found = block.decoding_table(
        run(tmp_path, CLUSTERED, block_word=own, block_position=place, block_layers=layers), seed=0
    )
    rate = found[found["snapshot"] == "step-5"].set_index(["part", "read"])["rate"]
    assert found.groupby("read")["candidates"].unique().map(list).to_dict() == {"word": [4], "position": [6]}
    assert found["n"].eq(INNER.size).all()
    assert rate["layer 1"].min() > 0.95
    assert rate["layer 2", "word"] > 0.95
    assert rate["layer 2", "position"] < 0.6
    assert rate["layer 3"].max() < 0.6
