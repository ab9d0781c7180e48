"""Views: a figure for each value of a column, in order, and only if there are rows."""

from dataclasses import fields
from multiprocessing.reduction import ForkingPickler

import pandas as pd
import pytest
from matplotlib.figure import Figure

from isoscope.base import kind as kinds
from isoscope.base.view import Table, View
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.line_form import Curves, Profile
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.pictures import pictures
from isoscope.platform.figures.scatter_form import Scatter
from isoscope.platform.figures.text_form import Texts
from isoscope.studies.fusion import views as fusion

TABLES = {
    "scores": pd.DataFrame({"arm": ["b", "a", "b"], "score": [1, 2, 3]}),
    "floors": pd.DataFrame({"arm": ["a", "c"], "floor": [4, 5]}),
    "names": pd.DataFrame({"name": ["x"]}),
    "empty": pd.DataFrame({"arm": []}),
    "tasks": pd.DataFrame({"task": ["bigram shift"]}),
}


def draw(*table: pd.DataFrame) -> Figure:
    return Figure()


def lengths(*table: pd.DataFrame) -> str:
    return ", ".join(str(len(part)) for part in table)


def high(scores: pd.DataFrame, *rest: pd.DataFrame) -> Table:
    return scores[scores["score"] > 1], *rest


def view(*needs: str, by: str | None = None, **changed: object) -> View:
    return View(**{"name": "v", "needs": needs, "form": draw, "caption": "{}!", "by": by, **changed})


@pytest.mark.parametrize(
    "views, expected",
    [
        ([view("scores", "floors", caption="Scores")], [("v", "Scores", [3, 2])]),
        (
            [view("scores", "floors", "names", by="arm", called={"a": "first"})],
            [("v-b", "b!", [2, 0, 1]), ("v-a", "first!", [1, 1, 1])],
        ),
        (
            [view("scores", "names", by="arm", rows=high, caption=lengths)],
            [("v-a", "1, 1", [1, 1]), ("v-b", "1, 1", [1, 1])],
        ),
        ([view("scores", "absent"), view("empty"), view("empty", by="arm")], []),
        ([view("tasks", by="task")], [("v-bigram_shift", "bigram shift!", [1])]),
    ],
    ids=["all rows", "of every table that has the column", "rows are chosen before", "nothing", "a file's name"],
)
def test_a_view_has_a_figure_per_value_in_the_order_of_its_rows(
    views: list[View], expected: list[tuple[str, str, list[int]]]
) -> None:
    found = [*pictures(views, TABLES)]
    assert [(one.name, one.caption, [len(part) for part in one.table]) for one in found] == expected
    assert all(isinstance(one.figure(), Figure) for one in found)


def test_no_two_views_share_a_file() -> None:
    names = [(one.name, one.by) for one in fusion.VIEWS]
    assert len(set(names)) == len(names)


def test_processes_can_draw_the_views_of_a_study() -> None:
    assert ForkingPickler.dumps(fusion.VIEWS), "pickle finds a function by its name, and a lambda has none"


def test_five_forms_draw_all_views_that_are_no_table() -> None:
    every = [view for name in (*kinds.names(), "geometry") for view in kinds.kind(name).views]
    assert len(every) > 60
    forms = (Curves, Profile, Matrix, Intervals, Scatter, Texts)
    assert {type(view.form) for view in every} == set(forms)
    assert max(len(fields(form)) for form in forms) <= 12
