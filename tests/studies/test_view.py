"""Views: a figure for each value of a column, in order, and only if there are rows."""

from dataclasses import fields
from multiprocessing.reduction import ForkingPickler

import pandas as pd
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
}


def draw(*table: pd.DataFrame) -> Figure:
    return Figure()


def lengths(*table: pd.DataFrame) -> str:
    return ", ".join(str(len(part)) for part in table)


def high(scores: pd.DataFrame, *rest: pd.DataFrame) -> Table:
    return scores[scores["score"] > 1], *rest


def view(*needs: str, by: str | None = None, **changed: object) -> View:
    return View(**{"name": "v", "needs": needs, "form": draw, "caption": "{}!", "by": by, **changed})


def test_one_figure_of_all_rows() -> None:
    (picture,) = pictures([view("scores", "floors", caption="Scores")], TABLES)
    assert (picture.name, picture.caption) == ("v", "Scores")
    assert [len(part) for part in picture.table] == [3, 2]
    assert isinstance(picture.figure(), Figure)


def test_a_figure_for_each_value_of_every_table_that_has_the_column() -> None:
    found = list(pictures([view("scores", "floors", "names", by="arm", called={"a": "first"})], TABLES))
    assert [(one.name, one.caption) for one in found] == [("v-b", "b!"), ("v-a", "first!")]
    assert [[len(part) for part in one.table] for one in found] == [[2, 0, 1], [1, 1, 1]]


def test_rows_are_chosen_before() -> None:
    found = list(pictures([view("scores", "names", by="arm", rows=high, caption=lengths)], TABLES))
    assert [(one.name, one.caption) for one in found] == [("v-a", "1, 1"), ("v-b", "1, 1")]


def test_without_a_table_or_rows_there_is_no_figure() -> None:
    assert list(pictures([view("scores", "absent"), view("empty"), view("empty", by="arm")], TABLES)) == []


def test_a_name_is_a_files_name() -> None:
    table = pd.DataFrame({"task": ["bigram shift"]})
    assert [one.name for one in pictures([view("t", by="task")], {"t": table})] == ["v-bigram_shift"]


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
