"""The filter in a browser: what it finds, where it leaves the reader, and how it goes with links."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser import opened
from report_material import Material

pytestmark = [pytest.mark.chromium, pytest.mark.usefixtures("one_browser")]


@pytest.fixture(scope="module")
def file(material: Material, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(material.page(), "utf-8")
    return path


def headings(page: Page) -> list[str]:
    return page.locator("#content :is(h2, h3):visible").all_inner_texts()


def test_the_filter_shows_what_has_all_words(file: Path) -> None:
    with opened(file) as seen:
        rows = seen.page.locator("#content tbody tr:visible")
        everything = rows.count()
        seen.page.fill("#filter", "fft accuracy")
        texts = [row.lower() for row in seen.page.locator(".findings li:visible").all_inner_texts()]
        assert texts
        section = seen.page.locator("section[aria-labelledby=study-fusion] .findings li:visible").all_inner_texts()
        assert len(section) == 1
        assert "accuracy, fft against" in section[0].lower()
        table = seen.page.locator("section[aria-labelledby=study-fusion] table").first
        assert table.locator("tbody tr:visible").all_inner_texts()[1].startswith("additive"), "the reference stays"
        assert "F1" not in table.locator("th[scope=rowgroup]:visible").all_inner_texts()
        seen.page.fill("#filter", "nothing is called this")
        assert seen.page.locator("#matches").inner_text() == "Nothing found"
        assert seen.page.locator("figure:visible").count() == 0
        seen.page.fill("#filter", "")
        assert rows.count() == everything


def test_only_what_a_person_reads_is_searched(file: Path, material: Material) -> None:
    sheet = re.search(r"\.(s[0-9a-f]{6})\{", material.page())
    assert sheet
    with opened(file) as seen:
        for query in (sheet[1], material.studies[0].runs[0].digest[:12], "currentColor"):
            seen.page.fill("#filter", query)
            expect(seen.page.locator("#matches")).to_have_text("Nothing found")
        seen.page.fill("#filter", "epoch validation")  # a figure's labels
        expect(seen.page.locator("#study-fusion-training")).to_be_visible()
        for query in ("a1", "A_1", "a₁"):  # a subscript, however it is typed
            seen.page.fill("#filter", query)
            assert seen.page.locator(".words dt:visible").all_inner_texts() == ["a₁"]
            assert headings(seen.page) == ["How to read this report", "What do the terms mean?"]


def test_no_heading_is_left_without_what_it_heads(file: Path) -> None:
    with opened(file) as seen:
        every = headings(seen.page)
        seen.page.fill("#filter", "nothing is called this")
        assert headings(seen.page) == []
        assert seen.page.locator("nav li:visible").count() == 0
        seen.page.fill("#filter", "f1 conv2d_identity")
        assert headings(seen.page) == ["Study fusion", "Which differences hold on the test split?"]
        links = ["Study fusion", "Which differences hold?"]
        assert seen.page.locator("nav li a:visible").all_inner_texts() == links
        seen.page.fill("#filter", "")
        assert headings(seen.page) == every


def test_a_filtered_page_has_an_address(file: Path) -> None:
    with opened(file) as seen:
        seen.page.fill("#filter", "a₁")
        address = seen.page.evaluate("location.href")
        shown = headings(seen.page)
        assert seen.requests == []
        assert seen.complaints == []
    with opened(address) as seen:
        assert seen.page.input_value("#filter") == "a₁"
        assert headings(seen.page) == shown
    with opened(f"{address}#reading") as seen:
        assert seen.page.input_value("#filter") == "a₁", "the link leads to what is shown"
        expect(seen.page.locator("#reading")).to_be_in_viewport()
    with opened(f"{address}#study-fusion-training") as seen:
        assert seen.page.input_value("#filter") == "", "the link leads to what the filter hides"
        expect(seen.page.locator("#study-fusion-training")).to_be_in_viewport()
