"""Search figures show the trials' values; without numbers a figure is left out, and no axis is without ends."""

import math
import re
from typing import Any
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from isoscope.platform.report.search_section import CAPTIONS, caption
from isoscope.platform.search.outcomes import COLUMNS, PROVENANCE, front, importances, knee, saved_by_pruning
from isoscope.platform.search.search_figures import front as front_figure
from isoscope.platform.search.search_figures import history, pictures, pruning, shown_points, slices, trial_rows
from search_material import NAMES, new, points, searched

NONE = pd.DataFrame(columns=COLUMNS)


def test_every_picture_has_a_title_and_a_caption_and_can_be_read() -> None:
    two = searched(60, 2)
    table = importances(two, least=15, resamples=2)
    found = pictures(two, table, chosen=3, metadata={"Source": "isoscope digest 8406d364"})
    assert [name for name, *_ in found] == ["history", "front", "importances", "slice", "slice-2"]
    for name, svg in found:
        assert CAPTIONS[name.removesuffix("-2")] == caption(name)
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert "isoscope digest 8406d364" in svg
        assert "mathdefault" not in svg
    assert plt.get_fignums() == [], "nothing is left in pyplot's state"
    first, again, other = (pictures(searched(25, seed=seed), NONE, chosen=5) for seed in (0, 0, 1))
    assert first == again != other
    assert [name for name, *_ in first] == ["history", "slice", "intermediate", "pruning"]


def study_of(*trials: FrozenTrial, objectives: int = 1) -> Study:
    study = new(objectives)
    study.add_trials(trials)
    return study


def trial(*values: float, rate: float = 0.1, reports: dict[int, float] | None = None) -> FrozenTrial:
    """A complete trial with one number and one choice."""
    return create_trial(
        values=values,
        params={"training.learning_rate": rate, "fusion": "additive"},
        distributions={
            "training.learning_rate": FloatDistribution(1e-5, 1.0, log=True),
            "fusion": CategoricalDistribution(("additive", "conv2d")),
        },
        intermediate_values=reports or {},
    )


FAILED = create_trial(state=TrialState.FAIL)
UNREPORTED = {1: math.nan, 2: math.nan}
STEPS = {PROVENANCE: {"steps": 4, "epochs": 2}}
PRUNED = create_trial(state=TrialState.PRUNED, intermediate_values=UNREPORTED, user_attrs=STEPS)
FRONTS = {"front", "front-2", "front-3", "slice", "slice-2", "slice-3"}
STUDIES: dict[str, tuple[Study, set[str]]] = {
    "none": (new(), set()),
    "none of two": (new(2), set()),
    "1": (searched(1), {"history", "intermediate"}),
    "1 of two": (searched(1, 2), {"history", "front"}),
    "2 of three": (searched(2, 3), {"history"} | FRONTS),
    "2, no axis": (searched(2, axis=None), {"history", "slice", "intermediate"}),
    "infeasible": (points([[1.0]], ["minimize"], infeasible=[0])[0], {"history"}),
    "equal values": (points([[1.0], [1.0]], ["minimize"])[0], {"history", "slice"}),
    "inf": (points([[math.inf], [1.0], [-math.inf], [2.0]], ["minimize"])[0], {"history", "slice"}),
    "equal and logarithmic": (study_of(*(trial(0.5, rate=0.1 + k / 100) for k in range(6))), {"history", "slice"}),
    "equal parameters": (study_of(*(trial(0.5 + k / 100) for k in range(6))), {"history"}),
    "all equal": (study_of(*6 * [trial(0.5)]), {"history"}),
    "one trial": (study_of(trial(0.5)), {"history"}),
    "endless": (study_of(*6 * [trial(math.inf)]), set()),
    "one number": (study_of(trial(0.5), *5 * [trial(math.inf)]), {"history"}),
    "reports missing": (study_of(*6 * [trial(0.5, reports=UNREPORTED)]), {"history"}),
    "all pruned": (study_of(*6 * [PRUNED]), {"pruning"}),
    "pruned before its steps were noted": (study_of(create_trial(state=TrialState.PRUNED)), set()),
    "all failed": (study_of(*6 * [FAILED]), set()),
    "two equal objectives": (study_of(*6 * [trial(0.5, 0.5)], objectives=2), {"history", "front"}),
    "an endless objective": (study_of(*(trial(k, math.inf) for k in range(6)), objectives=2), set()),
}


@pytest.mark.parametrize("kind", STUDIES)
def test_few_trials_or_trials_without_numbers_give_few_pictures_and_no_failure(kind: str) -> None:
    study, names = STUDIES[kind]
    chosen = getattr(knee(front(study), study.directions), "number", None)
    assert {name for name, *_ in pictures(study, NONE, chosen=chosen)} == names
    found = importances(study, least=3, resamples=2)
    for name, svg in pictures(study, found, chosen=0 if study.trials else None, metadata={}):
        assert not re.search(r' d="[^"]*(nan|inf)', svg), name


def drawn(axes: Any, gid: str) -> list[tuple[float, float]]:
    """Return the points of a line."""
    (line,) = [one for one in axes.lines if one.get_gid() == gid]
    return [*zip(line.get_xdata(), line.get_ydata(), strict=True)]


def test_over_the_points_stand_the_best_so_far_the_front_and_the_chosen_trial() -> None:
    study = searched(60, 2)
    best = knee(front(study), study.directions)
    shown = shown_points(study, trial_rows(study, best.number))
    allowed = [one for one in study.trials if one.state == TrialState.COMPLETE and one.values[0] >= 0.7]
    for index, axes in enumerate(history(study, shown).axes):
        running = (np.maximum if index == 0 else np.minimum).accumulate([one.values[index] for one in allowed])
        assert drawn(axes, "best so far") == [(one.number, value) for one, value in zip(allowed, running, strict=True)]
        assert drawn(axes, "chosen") == [(best.number, best.values[index])]
    (axes,) = front_figure(study, shown, *(f"objective/{name}" for name in NAMES[:2])).axes
    assert drawn(axes, "front") == sorted(tuple(one.values) for one in front(study))
    assert drawn(axes, f"trial:{best.number}") == drawn(axes, "chosen") == [tuple(best.values)]
    figure = slices(study, shown, f"objective/{NAMES[0]}")
    panels = {axes.get_title(loc="left").replace("\n", ""): axes for axes in figure.axes if axes.axison}
    assert panels["training.learning_rate"].get_xscale() == "log"
    assert [text.get_text() for text in panels["model.fusion.kernel_size"].get_xticklabels()] == ["[3]", "[3, 5]"]


def test_what_pruning_saved_is_the_area_above_the_line() -> None:
    study = searched(60)
    found = saved_by_pruning(study)
    (axes,) = pruning(study).axes
    assert sum(y for _, y in drawn(axes, "what:complete and pruned trials")) == found.run
    saved = f"saved: {found.full - found.run} of {found.full} steps, {found.share:.0%}"
    assert [text.get_text() for text in axes.texts] == [saved]


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
