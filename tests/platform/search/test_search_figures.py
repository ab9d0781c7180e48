"""Search figures show the trials' values; without data there is no figure and no error."""

import math
from collections import Counter
from itertools import product
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from isoscope.platform.report.search_section import CAPTIONS, caption
from isoscope.platform.search.outcomes import COLUMNS, front, importances, knee, saved_by_pruning
from isoscope.platform.search.search_figures import (
    BROKEN,
    history,
    importance,
    intermediate,
    pictures,
    pruning,
    shown_points,
    slices,
    trial_rows,
)
from isoscope.platform.search.search_figures import front as front_figure
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


def chosen(study: Study) -> int | None:
    found = knee(front(study), study.directions)
    return None if found is None else found.number


def points_of(study: Study) -> pd.DataFrame:
    return shown_points(study, trial_rows(study, chosen(study)))


@pytest.fixture(scope="module")
def one() -> Study:
    return searched(60)


@pytest.fixture(scope="module")
def two() -> Study:
    return searched(60, 2)


def test_every_picture_has_a_title_and_a_caption_and_can_be_read(one: Study, two: Study) -> None:
    table = importances(two, least=15, resamples=2)
    found = pictures(two, table, chosen=3, metadata={"Source": "isoscope digest 8406d364"})
    names = ["history", "front", "importances", "slice", "slice-2"]
    assert [name for name, *_ in found] == names
    assert [name for name, *_ in pictures(one, NONE, chosen=None)] == [name for name in ONE if name != "importances"]
    for name, svg in found:
        assert CAPTIONS[name.removesuffix("-2")] == caption(name)
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert "isoscope digest 8406d364" in svg
        assert "mathdefault" not in svg
    assert plt.get_fignums() == [], "nothing is left in pyplot's state"


def test_equal_studies_give_equal_bytes() -> None:
    def all_of(seed: int) -> list[tuple[str, str]]:
        return pictures(searched(25, seed=seed), NONE, chosen=5)

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
        (searched(2, 3), {"history", "front", "front-2", "front-3", "slice", "slice-2", "slice-3"}),
        (searched(2, axis=None), {"history", "slice", "intermediate"}),
        (points([[1.0]], ["minimize"], infeasible=[0])[0], {"history"}),
        (points([[1.0], [1.0]], ["minimize"])[0], {"history", "slice"}),
        (points([[math.inf], [1.0], [-math.inf], [2.0]], ["minimize"])[0], {"history", "slice"}),
    ],
    ids=["none", "none of two", "failed", "1", "1 of two", "2 of three", "2, no axis", "infeasible", "equal", "inf"],
)
def test_few_trials_give_few_pictures_and_no_failure(study: Study, names: set[str]) -> None:
    assert {name for name, *_ in pictures(study, NONE, chosen=chosen(study))} == names


def dots(axes: Axes, series: str) -> Counter[tuple[float, float]]:
    """Points of a series."""
    found = [one for one in axes.collections if one.get_gid() == f"series:{series}"]
    return Counter((float(x), float(y)) for one in found for x, y in one.get_offsets())


def test_the_history_is_every_complete_trial_and_the_best_so_far(two: Study) -> None:
    figure = history(two, points_of(two))
    allowed = [t for t in complete(two) if t.values[0] >= 0.7]
    broken = [t for t in complete(two) if t.values[0] < 0.7]
    assert allowed
    assert broken
    for index, axes in enumerate(figure.axes):
        for name in FUSIONS:
            want = Counter((t.number, t.values[index]) for t in allowed if t.params["fusion"] == name)
            assert dots(axes, name) == want
        assert dots(axes, BROKEN) == Counter((t.number, t.values[index]) for t in broken)
        (so_far,) = lines(axes, "best so far")
        running = (np.maximum if index == 0 else np.minimum).accumulate([t.values[index] for t in allowed])
        assert np.asarray(so_far.get_ydata()).tolist() == running.tolist()
    titles = [axes.get_title(loc="left").replace("\n", " ") for axes in figure.axes]
    assert titles == ["Accuracy, validation", "Share of the first direction (a₁), validation"]
    counts = Counter(t.params["fusion"] for t in allowed)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == [*(f"{name}, n = {counts[name]}" for name in FUSIONS), BROKEN]


def test_the_front_is_joined_and_the_suggested_trial_ringed(two: Study) -> None:
    names = [f"objective/{name}" for name in NAMES[:2]]
    axes = front_figure(two, points_of(two), *names).axes[0]
    (line,) = lines(axes, "front")
    assert xy([line]) == Counter((t.values[0], t.values[1]) for t in front(two))
    assert list(line.get_xdata()) == sorted(line.get_xdata())
    assert line.get_linestyle() == "-"
    (ring,) = lines(axes, "chosen")
    suggested = knee(front(two), two.directions)
    assert suggested is not None
    assert xy([ring]) == Counter([(suggested.values[0], suggested.values[1])])
    assert axes.get_xlabel() == "Accuracy, validation\n(more is better)"
    assert axes.get_ylabel().replace("\n", " ") == "Share of the first direction (a₁), validation (less is better)"


def test_a_slice_holds_only_trials_that_have_the_parameter(one: Study) -> None:
    figure = slices(one, points_of(one), f"objective/{NAMES[0]}")
    assert figure is not None
    panels = {axes.get_title(loc="left").replace("\n", ""): axes for axes in figure.axes if axes.axison}
    series = (*FUSIONS, BROKEN)

    def drawn(name: str) -> Counter[tuple[float, float]]:
        return sum((dots(panels[name], one) for one in series), Counter())

    for name in ("training.learning_rate", "model.fusion.modes", "penalty.weight"):
        assert drawn(name) == Counter((float(t.params[name]), t.values[0]) for t in complete(one) if name in t.params)
    assert panels["training.learning_rate"].get_xscale() == "log"
    assert panels["training.dropout"].get_xscale() == "linear"
    name = "model.fusion.kernel_size"
    assert [text.get_text() for text in panels[name].get_xticklabels()] == ["[3]", "[3, 5]"]
    having = [t for t in complete(one) if t.params["fusion"] == "conv2d"]
    assert drawn(name) == Counter((float(t.params[name] == "[3, 5]"), t.values[0]) for t in having)


def test_importances_stand_with_their_interval(two: Study) -> None:
    counts = Counter(t.params["fusion"] for t in complete(two))
    least = sorted(counts.values())[1]
    assert min(counts.values()) < least
    table = importances(two, least=least, resamples=3)
    figure = importance(two, table)
    shown = [group for group in FUSIONS if counts[group] >= least]
    assert len(figure.axes) == 2 * len(shown), "an architecture without importances has no column"
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert sorted(names) == sorted(set(table["parameter"]))
    for (objective, group), axes in zip(product(NAMES[:2], shown), figure.axes, strict=True):
        rows = table[(table["architecture"] == group) & (table["objective"] == objective)].set_index("parameter")
        drawn = {names[round(y)]: x for x, y in xy(lines(axes, ":"))}
        assert drawn == pytest.approx(rows["importance"].to_dict())
        (intervals,) = [one for one in axes.collections if one.get_gid() == ":"]
        spans = {names[round(a[1])]: (a[0], b[0]) for a, b in intervals.get_segments()}
        assert spans == {name: (row["low"], row["high"]) for name, row in rows.iterrows()}


def test_reports_are_drawn_with_gaps_and_rings_end_pruned_trials(one: Study) -> None:
    figure = intermediate(one, trial_rows(one, one.best_trial.number))
    assert figure is not None
    (axes,) = figure.axes
    drawn = {
        int(line.get_gid().rpartition(":")[2]): line.get_ydata() for line in axes.lines if "number:" in line.get_gid()
    }
    assert set(drawn) == {t.number for t in one.trials if t.intermediate_values}
    pruned = [t for t in one.trials if t.state == TrialState.PRUNED]
    assert xy(lines(axes, "pruned")) == Counter((2.0, t.intermediate_values[1]) for t in pruned), "NaN, then a value"
    best = [*one.best_trial.intermediate_values.values()]
    assert list(drawn[one.best_trial.number]) == best
    assert xy(lines(axes, "best trial")) == Counter([(float(len(best)), best[-1])])
    study = new()
    given = {"params": {"fusion": "fft"}, "distributions": {"fusion": CategoricalDistribution(FUSIONS)}}
    study.add_trial(create_trial(value=0.3, intermediate_values={0: 0.1, 1: math.nan, 2: 0.3}, **given))
    figure = intermediate(study, trial_rows(study, None))
    assert figure is not None
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), [0.1, math.nan, 0.3])


def test_what_pruning_saved_is_the_area_above_the_line(one: Study) -> None:
    axes = pruning(one).axes[0]
    saved = saved_by_pruning(one)
    (line,) = lines(axes, "what:complete and pruned trials")
    assert sum(line.get_ydata()) == saved.run
    ended = len([t for t in one.trials if t.state in (TrialState.COMPLETE, TrialState.PRUNED)])
    (band,) = axes.collections
    assert band.get_paths()[0].vertices[:, 1].max() == ended
    assert len(line.get_ydata()) == STEPS
    unrun = saved.full - saved.run
    assert [text.get_text() for text in axes.texts] == [f"saved: {unrun} of {saved.full} steps, {saved.share:.0%}"]


def test_hostile_names_are_text() -> None:
    study = new()
    name = "</text><script>alert(1)</script> $x$"
    for number in range(8):
        params = {name: float(number), "y": float(number**2 % 7), "fusion": name}
        given = {name: FloatDistribution(0, 9), "y": FloatDistribution(0, 9)}
        given |= {"fusion": CategoricalDistribution((name, "b"))}
        study.add_trial(create_trial(value=float(number), params=params, distributions=given))
    for _, svg in pictures(study, NONE, chosen=0):
        assert not [one for one in ElementTree.fromstring(svg).iter() if one.tag.endswith("script")]
