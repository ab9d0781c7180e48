"""No cell of a CSV that isoscope writes is a formula of a spreadsheet."""

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isoscope.platform.figures.csv_text import FORMULA, as_it_was, csv_text
from isoscope.platform.figures.origin import packed

SOURCES = Path(__file__).parents[3] / "src/isoscope"
HOSTILE = ["=cmd|'/c calc'!A0", '=HYPERLINK("http://evil")', "+1+1", "-2+3", "@SUM(1)", "\t=1", "\n=1", "'=1", "''=1"]
TABLE = pd.DataFrame({"name": [*HOSTILE, "plain", "it's", ""], "=column": -np.arange(12.0), "n": -np.arange(12)})


@pytest.mark.parametrize("text", [csv_text(TABLE), gzip.decompress(packed(TABLE)).decode()], ids=["file", "page"])
def test_texts_and_names_get_an_apostrophe_and_numbers_do_not(text: str) -> None:
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert head == ["name", "'=column", "n"]
    assert not [row[0] for row in rows if row[0][:1] in FORMULA]
    assert [as_it_was(row[0]) for row in rows] == TABLE["name"].tolist()
    assert [float(row[1]) for row in rows] == TABLE["=column"].tolist()
    assert [int(row[2]) for row in rows] == TABLE["n"].tolist()


@pytest.mark.parametrize("kind", [object, "string", "category"])
def test_whatever_the_type_of_the_column(kind: object) -> None:
    table = pd.DataFrame({"name": pd.Series([HOSTILE[0], None], dtype=kind)})
    assert csv_text(table).splitlines()[1].startswith("'=cmd")


@pytest.mark.parametrize("text", ["a\r=1", "\r\n=1", "\r=1"])
def test_no_row_starts_within_a_cell(text: str) -> None:
    rows = list(csv.reader(io.StringIO(csv_text(pd.DataFrame({"name": [text], "n": [1]})), newline="")))
    assert [len(row) for row in rows] == [2, 2]
    assert rows[1][0][0] not in FORMULA


def test_there_is_no_other_way_to_write_csv() -> None:
    """`delimited` prints a command for the user's own file; it writes nothing."""
    found = {
        path.name for path in SOURCES.rglob("*.py") if "to_csv(" in path.read_text() or "csv.writer" in path.read_text()
    }
    assert found == {"csv_text.py", "delimited.py"}


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).normal(size=2000).astype(np.float32),
        np.array([1 / 7, np.nan, 1e-30]),
        np.arange(3),
        np.array(["=1", "ä, b", None], object),
    ],
    ids=["float32", "float64", "int", "text"],
)
def test_a_cell_of_several_values_is_whole_and_in_one_line(values: np.ndarray) -> None:
    """The cosines of a sentence of many tokens were cut, had no commas, and broke over lines."""
    _, line = csv_text(pd.DataFrame({"arm": ["additive"], "values": [values]})).splitlines()
    ((_, cell),) = csv.reader([line])
    assert cell[0] not in FORMULA
    assert "NaN" not in cell
    np.testing.assert_array_equal(np.asarray(json.loads(cell), values.dtype), values)
