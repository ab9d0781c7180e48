"""SelfSim − AvgSim by class of forms: which classes, their counts, means over seeds and forms, and the drawing."""

import pandas as pd
import pytest

from isoscope.base.view import Tables
from isoscope.platform.figures.pictures import pictures
from isoscope.studies.spaces.contextuality_views import CLASSES_OF_FORMS

FREQUENCY, PART_OF_SPEECH = CLASSES_OF_FORMS
COUNTS = {"NOUN": 12, "VERB": 10, "DET": 9, "X": 1}
SPACES = [("A, seed 0", "A", False), ("A, seed 1", "A", False), ("B", "B", False), ("A, random weights", "A", True)]


def planted() -> Tables:
    """Word k of a tag has SelfSim .5 + k / 100 at layer 0, .1 more at each layer. Seeds of A: .1 more, .1 less.

    AvgSim is .1.
    """
    items = [(f"{tag}{k}", tag, 0.5 + k / 100) for tag, n in COUNTS.items() for k in range(n)]
    rows = [
        {"space": space, "model": model, "twin": twin, "layer": layer, "form": form, "tag": tag, "frequency": -1}
        | {"occurrences": 5 + place, "self_sim": value + layer / 10 + {"0": 0.1, "1": -0.1}.get(space[-1], 0.0)}
        for space, model, twin in SPACES
        for layer in (-1, 0, 1)
        for place, (form, tag, value) in enumerate(items)
    ]
    found = pd.DataFrame(rows)
    measures = found.drop_duplicates(["space", "layer"])[["space", "layer"]].assign(measure="avg_sim", value=0.1)
    return {"words": found.drop(columns="tag"), "tagged_words": found, "contextuality": measures}


def test_tags_with_few_forms_are_one_class_and_the_others_are_in_order_of_their_forms() -> None:
    (table,) = PART_OF_SPEECH.table(planted())
    assert list(dict.fromkeys(table["class"])) == ["NOUN (n = 12)", "VERB (n = 10)", "other tags (n = 10)"]
    own = table[(table["model"] == "A") & (table["layer"] == 1)].set_index("class")
    assert own["mean"]["NOUN (n = 12)"] == pytest.approx(0.5 + 0.055 + 0.1 - 0.1)
    assert own["error"]["NOUN (n = 12)"] == pytest.approx(pd.Series(range(12)).sem() / 100)
    assert own["n"].tolist() == [12, 10, 10], "forms, each the mean of two seeds"
    assert len(table) == 2 * 3 * 3, "no twin"


def test_a_form_with_two_tags_is_in_both_classes() -> None:
    tables = planted()
    shared = tables["tagged_words"]["form"].str.replace(r"[A-Z]+", "w", regex=True)
    again = {**tables, "tagged_words": tables["tagged_words"].assign(form=shared)}
    pd.testing.assert_frame_equal(PART_OF_SPEECH.table(tables)[0], PART_OF_SPEECH.table(again)[0])


def test_classes_of_frequency_have_as_many_forms_each() -> None:
    (table,) = FREQUENCY.table(planted())
    own = table[(table["model"] == "B") & (table["layer"] == 0)]
    assert own["class"].tolist() == [f"{low} to {low + 7} times in this text (n = 8)" for low in (5, 13, 21, 29)]


def test_without_tags_there_is_no_view_of_them() -> None:
    tables = planted()
    empty = {**tables, "tagged_words": tables["tagged_words"].iloc[:0]}
    assert [picture.name for picture in pictures(CLASSES_OF_FORMS, empty)] == ["self_sim_by_frequency"]
    del empty["tagged_words"]  # tables of an earlier version
    assert [picture.name for picture in pictures(CLASSES_OF_FORMS, empty)] == ["self_sim_by_frequency"]
