"""Figures of spaces from tables without numbers: the tables are those of the results page, less most of their rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isoscope.platform.figures.pictures import pictures
from isoscope.studies.spaces.views import VIEWS
from struck_views import wrong

DATA = Path(__file__).parents[3] / "docs/results/spaces/captions"


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    found = {path.stem: pd.read_parquet(path) for path in sorted(DATA.glob("*.parquet"))}
    for name, table in found.items():
        for column in ("model", "other_model"):
            if column in table:
                kept = [*dict.fromkeys(table[column])][:2]
                found[name] = table = table[table[column].isin(kept)]
        for column in ("layer", "other_layer"):
            if column in table:
                found[name] = table = table[table[column].between(0, 1)]
    return found


def test_every_figure_survives_tables_without_numbers(
    tables: dict[str, pd.DataFrame], pytestconfig: pytest.Config
) -> None:
    assert wrong(VIEWS, tables, exhaustive=pytestconfig.getoption("--exhaustive")) == []


def texts(view: str, tables: dict[str, pd.DataFrame]) -> list[str]:
    """All texts of the first figure of a view."""
    (own,) = [one for one in VIEWS if one.name == view]
    figure = next(pictures([own], tables)).figure()
    return [one.get_text() for one in [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]]


def test_similarities_none_of_which_has_a_value_are_said_to_have_none(tables: dict[str, pd.DataFrame]) -> None:
    """A null of 1 leaves (value − null)/(1 − null) without a value, where all sentences are alike."""
    without = {**tables, "similarity": tables["similarity"].assign(adjusted=np.nan)}
    assert any("No measure has a value" in text for text in texts("similarity", without))


@pytest.mark.parametrize("unit", [0.0, np.nan])
def test_a_panel_whose_bins_have_no_ends_says_so(tables: dict[str, pd.DataFrame], unit: float) -> None:
    """As distances over their mean, if all points are one: a tokenizer that knows no word gives such points."""
    pairs = tables["pairs"].copy()
    pairs.loc[pairs["measure"] == "distance", "unit"] = unit
    assert "no pair has a value" in texts("distributions", {**tables, "pairs": pairs})


def test_a_table_of_missing_numbers_is_a_notice(tables: dict[str, pd.DataFrame]) -> None:
    table = tables["over_training"]
    numbers = [*table.select_dtypes("float")]
    without = table.assign(**dict.fromkeys(numbers, np.nan)).assign(confidence=table["confidence"])
    (said,) = texts("over_training", {"over_training": without})
    assert said.endswith("its table has no numbers")


def test_rows_that_cannot_be_drawn_cost_their_figure_alone(
    tables: dict[str, pd.DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    (said,) = texts("distributions", {"pairs": tables["pairs"].drop(columns="share")})
    assert "KeyError: 'share'" in said.replace("\n", " ") or "share" in said
    assert "warning: figure distributions: its rows do not allow it" in capsys.readouterr().err
