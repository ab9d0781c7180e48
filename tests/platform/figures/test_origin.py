"""A figure's file leads back to its rows and runs: SVG, PNG, PDF and page; other rows have another digest."""

import gzip
import io
import re
from base64 import b64decode
from functools import partial
from math import nan

import pandas as pd
import pytest
from PIL import Image
from pypdf import PdfReader

from isoscope.base.view import View
from isoscope.platform.figures.csv_text import csv_text
from isoscope.platform.figures.line_form import Curves
from isoscope.platform.figures.origin import MOST, SHORT, Origin, origin, origins, with_rows
from isoscope.platform.figures.pictures import Picture
from isoscope.platform.figures.style import to_pdf, to_png, to_svg
from isoscope.platform.report.inline_svg import inline

RUNS = ["b" * 64, "a" * 64, "b" * 64]
TABLE = pd.DataFrame({"x": [0, 1, 2] * 2, "y": [0.1, 0.2, 0.4, 0.8, 0.7, 0.6], "arm": ["größe"] * 3 + ["=2 & <3>"] * 3})


def picture(table: pd.DataFrame = TABLE) -> Picture:
    return Picture(View("größe", ("points",), Curves(x="x", y="y", series="arm"), ""), None, (table,))


def of(table: pd.DataFrame = TABLE) -> Origin:
    return origin("study/größe-1", picture(table).rows, RUNS)


def files(table: pd.DataFrame = TABLE) -> dict[str, bytes]:
    """The figure in every form in which it leaves the project."""
    one, text = picture(table), of(table).text
    svg = with_rows(to_svg(one.figure(), {"Source": text}), one.rows)
    page = f"<html>{inline(svg, key='a', title='t')}{inline(svg, key='b', title='t')}</html>"
    png, pdf = to_png(one.figure(), metadata={"Source": text}), to_pdf(one.figure(), subject=text)
    return {"svg": svg.encode(), "png": png, "pdf": pdf, "page": page.encode()}


def test_rows_that_only_the_layout_refuses_give_a_figure_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    rows = pd.DataFrame(
        {"x": [1, 2] * 2, "y": [0.5, 0.2, nan, nan], "panel": [*"ppqq"], "arm": ["a"] * 4, "seed": [0] * 4}
    )
    form = Curves(x="x", y="y", columns="panel", labels=("x", ""), scales=("log", "log"))
    one = Picture(View("losses", ("points",), form, ""), None, (rows,))
    with pytest.raises(ValueError, match="log-scaled"):
        to_svg(one.figure())
    for write in (to_svg, to_png, partial(to_pdf, subject="s")):
        assert one.written(write)
        assert (
            "warning: figure losses: its rows do not allow it (ValueError: Data cannot be log-scaled"
            in capsys.readouterr().err
        )
    assert "No figure losses" in one.written(to_svg)


@pytest.mark.parametrize("form", ["svg", "png", "pdf", "page"])
def test_a_file_has_its_origin_once_and_equal_figures_are_equal_bytes(form: str) -> None:
    file = files()[form]
    assert origins(file) == [of()]
    assert file == files()[form]
    assert not re.search(rb"CreationDate|ModDate|Producer|dc:date|Software", file)


@pytest.mark.parametrize("change", [{"y": TABLE["y"] + 1e-5}, {"arm": ["größe"] * 6}], ids=["number", "name"])
def test_other_rows_have_another_digest(change: dict[str, object]) -> None:
    """The control: what is below the six digits of the page, and so of the rows in the file, is the same."""
    assert of(TABLE.assign(**change)).rows != of().rows
    assert of(TABLE.assign(y=TABLE["y"] + 1e-9)) == of()
    assert of(TABLE.iloc[:-1]).rows != of().rows


def test_the_origin_names_each_run_once_in_any_order_and_the_figure_in_plain_letters() -> None:
    assert of().runs == ("a" * SHORT, "b" * SHORT)
    assert of().figure == "study/gr%C3%B6%C3%9Fe-1"
    assert origins(of()._replace(runs=()).text.encode()) == [of()._replace(runs=())]


def test_an_svg_has_the_rows_that_its_digest_is_of_unless_they_are_many() -> None:
    found = re.findall(rb'<rows xmlns="urn:isoscope:rows" name="points">([^<]*)</rows>', files()["svg"])
    assert [gzip.decompress(b64decode(one)).decode() for one in found] == [csv_text(TABLE, float_format="%.6g")]
    many = picture(pd.DataFrame({"x": range(60_000), "y": 0.5, "arm": "a"})).rows
    assert len(many["points"]) > MOST
    assert with_rows("<metadata></metadata>", many) == "<metadata></metadata>"


def test_readers_of_png_and_pdf_find_the_origin_where_these_formats_have_it() -> None:
    made = files()
    assert Image.open(io.BytesIO(made["png"])).info["Source"] == of().text
    document = PdfReader(io.BytesIO(made["pdf"]))
    assert dict(document.metadata or {}) == {"/Subject": of().text}
    assert "größe" in document.pages[0].extract_text(), "text stays text"


def test_a_file_without_origin_has_none() -> None:
    assert origins(to_svg(picture().figure()).encode()) == []
    assert origins(b"isoscope figure=a/b rows=1234 runs=") == []


@pytest.mark.parametrize("after", [b"e", b",", b"\0f0", b")"])
def test_bytes_after_the_text_belong_to_no_run(after: bytes) -> None:
    """A PNG has the checksum of its text there."""
    assert origins(of().text.encode() + after) == [of()]
