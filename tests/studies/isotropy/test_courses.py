"""Arms over training: lines are means, bands are sd, and long curves are averaged, not subsampled."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.studies.curves import averages, thinned
from isoscope.studies.isotropy.views import VIEWS
from penalty_material import points


def called(name: str) -> Any:
    """The view of a name."""
    (view,) = [one for one in VIEWS if one.name == name]
    return view


def form(name: str) -> Any:
    """The form of a view."""
    return called(name).form


def test_of_many_classes_those_with_most_bars_have_panels(tmp_path: Path) -> None:
    table = points(tmp_path)
    own = table[table["metric"] == "step/kept/class_0"]
    more = [own.assign(metric=f"step/kept/class_{k}", value=own["value"] + k) for k in range(2, 40)]
    found = form("penalty").drawn(pd.concat([table, *more], ignore_index=True))
    kept = found["metric"][found["metric"].str.startswith("step/kept/")].unique()
    assert sorted(kept) == sorted(f"step/kept/class_{k}" for k in range(32, 40))


def test_long_curves_are_averaged_over_spans() -> None:
    steps = np.arange(1, 251)
    named = {"arm": "a", "metric": "step/a_1", "seed": 0}
    rows = pd.DataFrame({**named, "step": steps, "value": steps.astype(float)})
    found = thinned(rows, most=50)
    assert len(found) == 50
    assert found["step"].tolist() == list(range(5, 251, 5))
    assert found["value"].tolist() == [step - 2.0 for step in range(5, 251, 5)]
    assert found["value"].mean() == rows["value"].mean()
    assert len(thinned(rows.head(50), most=50)) == 50


def test_the_trade_shows_runs_with_their_family_and_weight(tmp_path: Path) -> None:
    means = averages(points(tmp_path), last=0.3).assign(across="a_1")
    doses = pd.DataFrame([
        {"arm": "additive-none", "family": "one", "weight": 10.0},
        {"arm": "additive-selected", "family": "other", "weight": 1.0},
        {"arm": "additive-all", "family": "one", "weight": 0.0},
    ])  # fmt: skip
    found = form("trade").drawn(means, doses)
    assert found["text"].tolist() == ["0"] * 3 + ["10"] * 3 + ["1"] * 3, "arms of a family in the order of weights"
    for across, column in (("validation/a_1", "across"), ("validation/accuracy", "up")):
        own = means[means["metric"] == across].set_index(["arm", "seed"])["value"]
        assert found[column].tolist() == [own[place] for place in zip(found["arm"], found["seed"], strict=True)]
    (axes,) = form("trade")(means, doses).axes
    assert [text.get_text() for text in axes.texts] == ["0", "10"]
    with pytest.raises(ValueError, match="none of these was measured: validation/a_1_centred"):
        form("trade").drawn(means[means["metric"] != "validation/a_1_centred"].assign(across="a_1_centred"), doses)


def test_metrics_by_share_of_the_data_have_a_line_per_arm_and_a_place_per_share(tmp_path: Path) -> None:
    means = averages(points(tmp_path), last=0.3)
    own = means[means["arm"] == "additive-none"]
    every = pd.concat([own.assign(arm=f"additive-none-{name}", value=own["value"] + k) for k, name in enumerate("ab")])
    doses = pd.DataFrame(
        {"arm": ["additive-none-a", "additive-none-b"], "group": "additive-none", "fraction": [0.1, 1]}
    )
    view = called("fractions")
    (rows,) = view.table({"averages": every, "doses": doses})
    found = view.form.points(rows)
    assert {*found["arm"]} == {"additive-none"}
    seen = found[found["metric"] == "validation/accuracy"].dropna(subset=["seed"]).sort_values(["step", "seed"])
    assert seen["step"].tolist() == [10.0] * 3 + [100.0] * 3
    alone = own[own["metric"] == "validation/accuracy"].sort_values("seed")["value"]
    assert seen["value"].tolist() == pytest.approx([*alone, *(alone + 1)])
    lacking = rows[(rows["step"] == 10.0) | (rows["seed"] != 0)]
    assert {*view.form.points(lacking).dropna(subset=["seed"])["step"]} == {10.0}, (
        "a share that a seed lacks is no mean of the others"
    )
    (none,) = view.table({"averages": every, "doses": doses.assign(fraction=1.0)})
    assert none.empty, "one share is no curve"


def test_curves_follow_a_published_figure_where_bars_are_selected(tmp_path: Path) -> None:
    kept = points(tmp_path)
    without = kept[~kept["metric"].str.startswith("step/kept")]
    assert len(without)
    published = {"anisotropy": "Shrink the Longest, Figure 1", "task": "Shrink the Longest, Figure 2"}
    for courses, figures in (kept, published), (without, {}):
        made = {view.name: view.remakes(courses) for view in VIEWS if callable(view.remakes)}
        assert {name: text for name, text in made.items() if text} == figures
