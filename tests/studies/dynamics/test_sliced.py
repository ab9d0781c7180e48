"""Tables of the allocation by slice from hand-made files: shares, the update of half, seeds, unchanged slices."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.base.parquet import write_parquet
from isoscope.data.ngrams import CONTEXTS, FREQUENCIES
from isoscope.studies.dynamics.course_views import BANDS, CALLED, LOSS, slice_curves
from isoscope.studies.dynamics.sliced import sliced
from isoscope.studies.dynamics.sums import EVERY

ENDS = [1, 2, 8]
PLANTED = {("frequent", "unigram"): (0.75, {"emb": [-3.0, -0.5, -0.5], "out": [0.0, 0.0, 0.0]}),
           ("rare", "context"): (0.2, {"emb": [-0.2, -0.2, 0.0], "out": [0.2, -0.1, -0.5]}),
           ("rare", "bigram"): (0.05, {"emb": [-0.001, 0.0, 0.0], "out": [0.0, 0.001, 0.0]})}  # fmt: skip
"""Slice → share of tokens, and allocation by component and interval, in nats of the set's loss."""


def write(folder: Path, scale: float = 1.0, gap: float = 0.0) -> Any:
    """Write a run's files, in both sets; the training set's values are of the other sign."""
    values, closure = [], []
    for (frequency, context), (tokens, parts) in PLANTED.items():
        for name, sign in (("train", -scale), ("validation", scale)):
            loss = 5.0 * tokens
            for place, (start, end) in enumerate(zip([0, *ENDS], ENDS, strict=False)):
                keys = {"start": start, "update": end, "set": name, "frequency": frequency, "context": context}
                blocks = {"emb": ("enc", None), "out": ("enc", 0)}
                for component, (stack, layer) in blocks.items():
                    about = {"stack": stack, "layer": layer, "component": component}
                    values.append(keys | about | {"value": sign * parts[component][place]})
                change = sign * sum(part[place] for part in parts.values()) - gap
                closure.append(keys | {"tokens": tokens, "before": loss, "after": loss + change, "closed": gap == 0})
                loss += change
    folder.mkdir()
    words = dict.fromkeys(("set", "frequency", "context"), "category")
    table = pd.DataFrame(values).astype(words | {"layer": "Int16", "stack": "category", "component": "category"})
    write_parquet(table, folder / "slices.parquet")
    write_parquet(pd.DataFrame(closure).astype(words), folder / "slices_closure.parquet")
    return SimpleNamespace(output=SimpleNamespace(folder=folder))


def test_shares_of_each_slice_sum_to_one_and_half_is_when_it_was_reached(tmp_path: Path) -> None:
    arms: Any = {"causal": {seed: write(tmp_path / str(seed), 1.0 + seed) for seed in range(2)}}
    table = sliced(arms, 0.95)["slices"].set_index(["frequency", "context", "component"]).sort_index()
    for key in (("frequent", "unigram"), ("rare", "context")):
        own = table.loc[key]
        assert own["share"].drop(EVERY).sum() == pytest.approx(1) == own.loc[EVERY, "share"]
        assert own["low"].isna().all(), "two seeds have no interval"
    assert table.loc[("frequent", "unigram", "emb"), "share"] == pytest.approx(1)
    assert table.loc[("rare", "context", "emb"), "share"] == pytest.approx(0.5)
    assert table.loc[("frequent", "unigram", EVERY), ["half", "before", "tokens"]].tolist() == [1, 5, 0.75]
    assert table.loc[("rare", "context", EVERY), "half"] == 8
    assert table.loc[("rare", "context", EVERY), "after"] == pytest.approx(5 - 1.5 * 0.8 / 0.2)
    assert table.loc[("rare", "bigram"), "share"].isna().all(), "its loss did not change"
    assert (table["n"] == 2).all()
    assert (table["open"] == 0).all()


def test_the_loss_is_the_measured_loss_so_a_gap_is_missing_in_the_parts(tmp_path: Path) -> None:
    arms: Any = {"causal": {0: write(tmp_path / "0", gap=0.1)}}
    found = sliced(arms, 0.95)
    keys = ["frequency", "context", "component"]
    table = found["slices"].set_index(keys).sort_index()["share"]
    own = table.loc[("frequent", "unigram")]
    assert own[EVERY] == pytest.approx(1)
    assert own.drop(EVERY).sum() == pytest.approx(4 / 4.3)
    assert set(found["slices"]["open"]) == {3}
    course = found["slices_course"].set_index(keys).sort_index().loc[("rare", "context", EVERY)]
    np.testing.assert_allclose(course["share"], np.array([0.1, 0.5, 1.1]) / 1.1)


def test_the_ring_stands_where_the_drawn_curve_reaches_half() -> None:
    """Seeds reach half of the change at different updates, whose mean is no update of the curve."""
    key = {"arm": "causal", "frequency": "rare", "context": "context"}
    shares = {"update": [1, 2, 4, 8], "share": [0.1, 0.3, 0.6, 1.0]}
    course = pd.concat([pd.DataFrame(key | shares | {"component": one}) for one in ("emb", EVERY)])
    about = {"component": EVERY, "tokens": 0.5, "before": 5.0, "after": 4.0, "half": 20 / 3}
    found = slice_curves(course, pd.DataFrame([key | about]))
    marked = found[found["mark"].notna()]
    assert marked[["component", "update"]].to_numpy().tolist() == [[LOSS, 4]]


def test_the_figure_has_a_panel_for_every_class_of_tokens() -> None:
    assert (BANDS, tuple(CALLED)) == (FREQUENCIES, CONTEXTS)
