"""Search figures show the trials' values; without data there is no figure and no error."""

import math
from collections import Counter
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from isoscope.platform.report.search_section import CAPTIONS, caption
from isoscope.platform.search.outcomes import COLUMNS, front, importances, knee, saved_by_pruning
from isoscope.platform.search.search_figures import (
    fronts,
    history,
    importance_bars,
    intermediate,
    pictures,
    pruning,
    slices,
)
from isoscope.platform.search.searched import Searched
from search_material import FUSIONS, NAMES, STEPS, new, points, searched

NONE = pd.DataFrame(columns=COLUMNS)
ONE = ["history", "importances", "slice", "intermediate", "pruning"]


def lines(axes: Axes, gid: str) -> list[Line2D]:
    return [line for line in axes.lines if line.get_gid() == gid]


def xy(found: list[Line2D]) -> Counter[tuple[float, float]]:
    """Points of all these lines."""
    return Counter(
        (float(x), float(y)) for line in found for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    )


def complete(study: Study) -> list[FrozenTrial]:
    return study.get_trials(states=(TrialState.COMPLETE,))


def view(study: Study) -> Searched:
    found = knee(front(study), study.directions)
    return Searched(study, chosen=None if found is None else found.number)


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


@pytest.fixture(scope="module")
def one() -> Study:
    return searched(60)


@pytest.fixture(scope="module")
def two() -> Study:
    return searched(60, 2)


def test_every_picture_has_a_title_and_a_caption_and_can_be_read(one: Study, two: Study) -> None:
    table = importances(two, least=15, resamples=2)
    found = pictures(two, table, chosen=3, least=15, metadata={"Source": "isoscope digest 8406d364"})
    names = ["history", "front", "importances", "slice", "slice-2"]
    assert [name for name, *_ in found] == names
    assert [name for name, *_ in pictures(one, NONE, chosen=None, least=50)] == [
        name for name in ONE if name != "importances"
    ]
    for name, svg in found:
        assert CAPTIONS[name.removesuffix("-2")] == caption(name)
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert "isoscope digest 8406d364" in svg
        assert "mathdefault" not in svg
    assert plt.get_fignums() == [], "nothing is left in pyplot's state"


def test_equal_studies_give_equal_bytes() -> None:
    def all_of(seed: int) -> list[tuple[str, str]]:
        return pictures(searched(25, seed=seed), NONE, chosen=5, least=50)

    assert all_of(0) == all_of(0)
    assert all_of(0) != all_of(1)


def failed(count: int) -> Study:
    study = new()
    for _ in range(count):
        study.add_trial(create_trial(state=TrialState.FAIL))
    return study


@pytest.mark.parametrize(
    "study, names",
    [
        (new(), set()),
        (new(2), set()),
        (failed(3), set()),
        (searched(1), {"history", "intermediate"}),
        (searched(1, 2), {"history", "front"}),
        (searched(2, 3), {"history", "front", "slice", "slice-2", "slice-3"}),
        (searched(2, axis=None), {"history", "slice", "intermediate"}),
        (points([[1.0]], ["minimize"], infeasible=[0])[0], {"history"}),
        (points([[1.0], [1.0]], ["minimize"])[0], {"history", "slice"}),
        (points([[math.inf], [1.0], [-math.inf], [2.0]], ["minimize"])[0], {"history", "slice"}),
    ],
    ids=["none", "none of two", "failed", "1", "1 of two", "2 of three", "2, no axis", "infeasible", "equal", "inf"],
)
def test_few_trials_give_few_pictures_and_no_failure(study: Study, names: set[str]) -> None:
    assert {name for name, *_ in pictures(study, NONE, chosen=view(study).chosen, least=50)} == names


def test_the_history_is_every_complete_trial_and_the_best_so_far(two: Study) -> None:
    figure = drawn(history(view(two)))
    for index, axes in enumerate(figure.axes):
        for gid, allowed in (("feasible", True), ("infeasible", False)):
            want = [t for t in complete(two) if (t.values[0] >= 0.7) == allowed]
            assert want
            assert xy(lines(axes, gid)) == Counter((t.number, t.values[index]) for t in want)
        (so_far,) = lines(axes, "best so far")
        allowed_values = [t.values[index] for t in complete(two) if t.values[0] >= 0.7]
        running = (np.maximum if index == 0 else np.minimum).accumulate(allowed_values)
        assert np.asarray(so_far.get_ydata()).tolist() == running.tolist()
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "Accuracy, validation",
        "Share of the first direction (a₁),\nvalidation",
    ]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    counts = Counter(t.params["fusion"] for t in complete(two))
    assert [text for text in texts if text.startswith(FUSIONS)] == [f"{name}, n = {counts[name]}" for name in FUSIONS]
    assert texts[3:] == ["breaks a constraint", f"suggested trial, number {view(two).chosen}", "best so far"]


def test_the_front_is_joined_and_the_suggested_trial_ringed(two: Study) -> None:
    axes = drawn(fronts(view(two))).axes[0]
    (line,) = lines(axes, "front")
    assert xy([line]) == Counter((t.values[0], t.values[1]) for t in front(two))
    assert list(line.get_xdata()) == sorted(line.get_xdata())
    (ring,) = lines(axes, "chosen")
    suggested = knee(front(two), two.directions)
    assert xy([ring]) == Counter([(suggested.values[0], suggested.values[1])])
    assert lines(axes, "infeasible")[0].get_alpha() < lines(axes, "feasible")[0].get_alpha() / 2
    assert axes.get_xlabel() == "Accuracy, validation\n(more is better)"
    assert axes.get_ylabel() == "Share of the first direction (a₁),\nvalidation\n(less is better)"
    assert fronts(view(searched(9))) is None, "one objective has no front"
    three = drawn(fronts(view(searched(30, 3))))
    assert len([axes for axes in three.axes if axes.get_visible()]) == 3


def test_a_slice_holds_only_trials_that_have_the_parameter(one: Study) -> None:
    panels = {axes.get_xlabel(): axes for axes in drawn(slices(view(one), 0)).axes}
    for name in ("training.learning_rate", "model.fusion.modes", "penalty.weight"):
        want = Counter((float(t.params[name]), t.values[0]) for t in complete(one) if name in t.params)
        assert xy(lines(panels[name], "feasible") + lines(panels[name], "infeasible")) == want
    assert len({sum(xy(lines(axes, "feasible")).values()) for axes in panels.values()}) > 1
    assert panels["training.learning_rate"].get_xscale() == "log"
    assert panels["training.dropout"].get_xscale() == "linear"
    choices = panels["model.fusion.kernel_size"]
    assert [text.get_text() for text in choices.get_xticklabels()] == ["[3]", "[3, 5]"]
    name, having = "model.fusion.kernel_size", [t for t in complete(one) if t.params["fusion"] == "conv2d"]
    want = Counter((float(t.params[name] == "[3, 5]"), t.values[0]) for t in having)
    assert xy(lines(choices, "feasible") + lines(choices, "infeasible")) == want


def test_importances_stand_with_their_interval(two: Study) -> None:
    counts = Counter(t.params["fusion"] for t in complete(two))
    least = sorted(counts.values())[1]
    assert min(counts.values()) < least
    table = importances(two, least=least, resamples=3)
    figure = drawn(importance_bars(view(two), table, least=least))
    shown = [group for group in FUSIONS if counts[group] >= least]
    assert len(figure.axes) == 2 * len(shown), "an architecture without importances has no row"
    for row, group in enumerate(shown):
        for column, objective in enumerate(NAMES[:2]):
            axes = figure.axes[2 * row + column]
            rows = table[(table["architecture"] == group) & (table["objective"] == objective)].set_index("parameter")
            names = [text.get_text() for text in axes.get_yticklabels()]
            widths = [bar.get_width() for bar in axes.containers[0]]
            assert dict(zip(names, widths, strict=True)) == pytest.approx(rows["importance"].to_dict())
            (intervals,) = [one for one in axes.collections if one.get_gid() == "interval"]
            spans = [(segment[0][0], segment[1][0]) for segment in intervals.get_segments()]
            assert spans == [(rows.loc[name, "low"], rows.loc[name, "high"]) for name in names]


def test_reports_are_drawn_with_gaps_and_pruned_ones_end_in_a_cross(one: Study) -> None:
    axes = drawn(intermediate(view(one))).axes[0]
    pruned = [t for t in one.trials if t.state == TrialState.PRUNED]
    assert len(lines(axes, "pruned")) == len(lines(axes, "end")) == len(pruned) > 0
    assert len(lines(axes, "reported")) == len([t for t in complete(one) if t.intermediate_values])
    crosses = Counter((2.0, t.intermediate_values[1]) for t in pruned)
    assert xy(lines(axes, "end")) == crosses, "NaN first, then a value, then stopped"
    assert all(line.get_marker() == "x" for line in lines(axes, "end"))
    chosen = [line for line in lines(axes, "reported") if line.get_linewidth() > 2]
    assert len(chosen) == 1
    assert list(chosen[0].get_ydata()) == list(one.best_trial.intermediate_values.values())
    study = new()
    for _ in range(2):
        given = {"params": {"fusion": "fft"}, "distributions": {"fusion": CategoricalDistribution(FUSIONS)}}
        study.add_trial(create_trial(value=0.3, intermediate_values={0: 0.1, 1: math.nan, 2: 0.3}, **given))
    (line, _) = lines(drawn(intermediate(view(study))).axes[0], "reported")
    np.testing.assert_array_equal(line.get_ydata(), [0.1, math.nan, 0.3])


def test_what_pruning_saved_is_the_hatched_area(one: Study) -> None:
    figure = drawn(pruning(view(one)))
    areas = {patch.get_gid(): patch for patch in figure.axes[0].patches if isinstance(patch, StepPatch)}
    saved = saved_by_pruning(one)
    run = areas["run"].get_data()
    assert float(np.sum(run.values)) == saved.run
    above = areas["saved"].get_data()
    assert float(np.sum(above.values - above.baseline)) == saved.full - saved.run > 0
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    unrun = saved.full - saved.run
    assert texts == [f"run: {saved.run} steps", f"saved: {unrun} of {saved.full} steps, {saved.share:.0%}"]
    assert len(run.values) == STEPS
    assert pruning(view(searched(3))) is None


def test_hostile_names_are_text() -> None:
    study = new()
    name = "</text><script>alert(1)</script> $x$"
    for number in range(8):
        params = {name: float(number), "y": float(number**2 % 7), "fusion": name}
        given = {name: FloatDistribution(0, 9), "y": FloatDistribution(0, 9)}
        given |= {"fusion": CategoricalDistribution((name, "b"))}
        study.add_trial(create_trial(value=float(number), params=params, distributions=given))
    for _, svg in pictures(study, NONE, chosen=0, least=50):
        assert not [one for one in ElementTree.fromstring(svg).iter() if one.tag.endswith("script")]
