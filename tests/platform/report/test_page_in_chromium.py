"""The page in a browser: legible, no wider than the screen, with filter and explorer."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from browser import Seen, opened
from report_material import Material
from search_material import searched, write_search

pytestmark = [pytest.mark.chromium, pytest.mark.usefixtures("one_browser")]
Inside = Callable[..., Path]

# Boxes wider than the window, outside what scrolls by itself.
TOO_WIDE = """() => [...document.querySelectorAll("body *")].filter(e =>
  !e.closest(".scroll > *") && !e.classList.contains("skip") && e.getBoundingClientRect().right > innerWidth + 1
).map(e => e.outerHTML.slice(0, 80))"""
# Luminance contrast of an element's colour with the background behind it (WCAG 2).
CONTRAST = """selector => {
  const light = colour => {
    const part = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  return [...document.querySelectorAll(selector)].map(e => {
    let ground = e;
    while (getComputedStyle(ground).backgroundColor === "rgba(0, 0, 0, 0)") ground = ground.parentElement;
    const page = light(getComputedStyle(ground).backgroundColor);
    const style = getComputedStyle(e);
    const ink = light(e instanceof SVGElement ? style.fill : style.color);
    return (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
  });
}"""


@pytest.fixture(scope="module")
def file(material: Material, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(material.page(abouts={"fusion": "Does fft lower a₁?"}), "utf-8")
    return path


def heights(seen: Seen) -> list[float]:
    """Font size on the screen, in pixels, of every text in the first figure."""
    return seen.page.evaluate(
        """() => [...document.querySelectorAll("#content figure svg")].slice(0, 1).flatMap(svg => {
          const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
          return [...svg.querySelectorAll("text")].map(t => parseFloat(getComputedStyle(t).fontSize) * scale);
        })"""
    )


GROUNDS = "all => all.map(one => getComputedStyle(one).backgroundColor)"
# Of each box: whether it is wider than its place, a stop of the keyboard, and says that it scrolls.
BOXES = """all => all.filter(box => box.checkVisibility()).map(box => [box.scrollWidth > box.clientWidth + 1,
  box.tabIndex === 0, getComputedStyle(box, "::before").content.includes("Scroll")])"""


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_reads_asks_for_nothing_and_axe_finds_no_serious_fault(file: Path, width: int, dark: bool) -> None:
    with opened(file, width=width, dark=dark) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.page.evaluate(TOO_WIDE) == []
        for figure in seen.page.locator("figure svg").all():
            box = figure.bounding_box()
            assert box["width"] >= 600 or width == 1400
            assert box["height"] > 150
        sizes = heights(seen)
        assert len(sizes) > 20
        assert min(sizes) >= 9
        assert min(seen.page.evaluate(CONTRAST, "p, li, td, th, figcaption, caption, dd, dt, a")) >= 4.5
        assert min(seen.page.evaluate(CONTRAST, "#study-fusion-training-axes_1 text")) >= 7
        if dark:  # figures stand on white there, too
            assert set(seen.page.locator(".drawing, .preview").evaluate_all(GROUNDS)) == {"rgb(255, 255, 255)"}
            assert seen.page.locator("body").evaluate_all(GROUNDS) != ["rgb(255, 255, 255)"]
        seen.page.wait_for_function(
            "!document.querySelector('table').closest('.scroll').matches(':not(.scrolls)[tabindex]')"
        )
        found = seen.page.locator("div.scroll").evaluate_all(BOXES)
        assert all(len({*box}) == 1 for box in found), "what scrolls says so, and only that is a stop"
        assert any(scrolls for scrolls, *_ in found) or width > 400
        assert seen.requests == []
        assert seen.complaints == []
        if width == 400:
            seen.page.get_by_role("button", name="Contents").click()
        assert grave(seen.page) == []
        seen.page.evaluate("filter.labels[0].remove(); filter.placeholder = ''")
        assert grave(seen.page) == ["label"], "negative control: a field without a label"


def grave(page: Page, **where: str) -> list[str]:
    """Return the rules that the page breaks, of serious or critical impact."""
    return [
        one["id"] for one in Axe().run(page, **where).response["violations"] if one["impact"] in ("serious", "critical")
    ]


def test_a_figure_and_its_data_are_downloads(file: Path, material: Material, tmp_path: Path) -> None:
    with opened(file) as seen:
        figure = seen.page.locator("#study-fusion-training")
        figure.get_by_text("Downloads").click()
        for name, start in (("SVG", b"<svg"), ("PNG", b"\x89PNG"), ("CSV", b"study,arm,metric")):
            with seen.page.expect_download() as got:
                figure.get_by_text("CSV of bands" if name == "CSV" else name, exact=True).click()
            got.value.save_as(tmp_path / name)
            assert (tmp_path / name).read_bytes().startswith(start)
    rows = pd.read_csv(tmp_path / "CSV")
    own = material.studies[0].by_name["bands"]
    assert len(rows) == len(own)
    assert rows["mean"].to_numpy() == pytest.approx(own["mean"].to_numpy(dtype=float), rel=1e-5, nan_ok=True)


def test_the_copy_of_a_figure_among_the_findings_holds_no_stop_of_the_keyboard(
    tmp_path: Path, material: Material
) -> None:
    page_file = tmp_path / "index.html"
    page_file.write_text(material.page(search=write_search(tmp_path / "search", searched(40, 2))), "utf-8")
    with opened(page_file, width=1280) as seen:
        assert seen.page.locator(".preview svg").count() > 0
        stops = []
        for _ in range(80):
            seen.page.keyboard.press("Tab")
            stops.append(seen.page.evaluate("document.activeElement.tagName").lower())
        assert stops.count("a") >= seen.page.locator("a.preview").count()
        assert "use" not in stops


def test_a_trial_of_the_front_is_read_by_pointer_and_keyboard(tmp_path: Path, material: Material) -> None:
    page_file = tmp_path / "index.html"
    page_file.write_text(material.page(search=write_search(tmp_path / "search", searched(40, 2))), "utf-8")
    with opened(page_file, width=1280) as seen:
        figure = seen.page.locator("figure#search-front")
        output, trials = figure.locator("output"), figure.locator(".told")
        assert "Tab leads through the front" in output.inner_text()
        stop = figure.locator(".told[tabindex]").first
        stop.focus()
        by_keyboard = output.inner_text()
        assert by_keyboard == stop.locator("title").text_content()
        trials.last.hover()  # no other dot is above it
        expect(output).to_have_text(trials.last.locator("title").text_content() or "")
        assert output.inner_text() != by_keyboard
        suggested = seen.page.locator("tr", has_text="(suggested)").get_attribute("id")
        expect(seen.page.locator(f"#{suggested}")).not_to_be_in_viewport()
        box = figure.locator(f"[id$='-{suggested.replace('-', ':')}']").bounding_box()
        seen.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        expect(seen.page.locator(f"#{suggested}")).to_be_in_viewport()
        assert grave(seen.page, context="#search-front") == []


def test_arms_and_seeds_of_curves_are_switched_off_and_on(file: Path) -> None:
    with opened(file, width=1280) as seen:
        figure = seen.page.locator("#study-fusion-training")
        assert figure.get_by_text("mean, band and n are of all seeds").is_visible()
        visible = "parts => parts.filter(part => part.getAttribute('visibility') !== 'hidden').map(part => part.id)"
        every = figure.locator("[id*='-arm:']").evaluate_all(visible)
        assert any("/seed:1" in name for name in every)
        figure.get_by_label("fft", exact=True).focus()
        seen.page.keyboard.press("Space")
        assert figure.locator("[id*='-arm:']").evaluate_all(visible) == [one for one in every if "arm:fft" not in one]
        figure.get_by_label("1", exact=True).uncheck()
        left = figure.locator("[id*='-arm:']").evaluate_all(visible)
        assert left == [one for one in every if "arm:fft" not in one and "/seed:1" not in one]
        figure.get_by_label("fft", exact=True).check()
        assert figure.locator("[id*='-arm:']").evaluate_all(visible) == [one for one in every if "/seed:1" not in one]


def test_a_narrow_screen_has_its_contents_at_hand(file: Path) -> None:
    with opened(file, width=400) as seen:
        seen.page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        contents = seen.page.get_by_role("button", name="Contents")
        expect(contents).to_be_in_viewport()
        link = seen.page.locator("nav").get_by_role("link", name="Which differences hold?")
        expect(link).to_be_hidden()
        contents.click()
        link.click()
        expect(link).to_be_hidden()
        expect(seen.page.locator("#study-fusion-differences")).to_be_in_viewport()
        picture = seen.page.locator(".preview svg").first.bounding_box()
        assert picture["width"] >= 600, "its labels can be read"


def test_paper_has_no_folds_and_nothing_to_click(material: Material, inside: Inside, tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    path.write_text(material.explored(inside()), "utf-8")
    with opened(path) as seen:
        seen.page.emulate_media(media="print")
        for gone in (".explorer", "nav", ".tools", ".skip", ".contents", "details:not(.settings)"):
            assert seen.page.locator(gone).count() > 0, gone
            assert seen.page.locator(f"{gone}:visible").count() == 0, gone
        assert not seen.page.get_by_text("Move the sliders").is_visible()
        first = seen.page.locator("figcaption details").first
        first.evaluate("fold => { fold.open = true }")
        expect(first.locator(".origin")).to_be_visible()


def test_a_figure_is_a_single_stop_and_chapters_are_skipped(file: Path) -> None:
    with opened(file, width=1400) as seen:
        stops = """figure => [...figure.querySelectorAll("a, button, summary, [tabindex]")]
          .filter(e => e.checkVisibility()).length"""
        seen.page.wait_for_function("!document.querySelector('.drawing').hasAttribute('tabindex')")
        assert {figure.evaluate(stops) for figure in seen.page.locator("figure:not(.more *)").all()} == {1}
        skip = seen.page.get_by_role("link", name="Skip to: Study fusion")
        skip.focus()
        expect(skip).to_be_in_viewport()
        seen.page.keyboard.press("Enter")
        expect(seen.page.locator("#study-fusion")).to_be_in_viewport()
        seen.page.keyboard.press("Tab")
        assert (
            seen.page.evaluate("document.activeElement.closest('section').getAttribute('aria-labelledby')")
            == "study-fusion"
        )


def test_a_question_shows_its_first_figure_and_folds_the_others(file: Path) -> None:
    with opened(file) as seen:
        folded, shown = seen.page.locator(".more figure"), seen.page.locator("figure:not(.more *)")
        assert folded.count() >= 1
        assert not any(figure.is_visible() for figure in folded.all())
        assert all(figure.is_visible() for figure in shown.all())
        last = folded.last.get_attribute("id")
        title = folded.last.locator("strong").first.text_content() or ""
        name = title.partition(". ")[2].rstrip(".")
        fold = seen.page.locator(f".more:has(#{last})")
        assert name in fold.locator("> summary").inner_text(), "the fold says what is in it"
        seen.page.evaluate("key => { location.hash = key }", last)
        expect(folded.last).to_be_in_viewport()
        fold.evaluate("fold => { fold.open = false }")
        seen.page.fill("#filter", name)
        expect(folded.last).to_be_visible()
        seen.page.fill("#filter", "")
        expect(folded.last).to_be_hidden()


def headings(page: Page) -> list[str]:
    return page.locator("#content :is(h2, h3):visible").all_inner_texts()


def test_an_address_that_names_no_part_stops_no_script(file: Path) -> None:
    for typed in ("#%", "#50%25", "#nothing"):
        with opened(file.resolve().as_uri() + typed) as seen:
            seen.page.fill("#filter", "nothing is called this")
            assert seen.page.locator("#matches").inner_text() == "Nothing found"
            assert seen.complaints == []


def test_the_filter_shows_what_has_all_words(file: Path) -> None:
    with opened(file) as seen:
        rows = seen.page.locator("#content tbody tr:visible")
        everything = rows.count()
        seen.page.fill("#filter", "fft matthews")
        texts = [row.lower() for row in seen.page.locator(".findings li:visible").all_inner_texts()]
        assert texts
        section = seen.page.locator("section[aria-labelledby=study-fusion] .findings li:visible").all_inner_texts()
        assert len(section) == 1
        assert "matthews correlation, fft against" in section[0].lower()
        table = seen.page.locator("section[aria-labelledby=study-fusion] table").first
        assert table.locator("tbody tr:visible").all_inner_texts()[1].startswith("additive"), "the reference stays"
        assert "F1" not in table.locator("th[scope=rowgroup]:visible").all_inner_texts()
        seen.page.fill("#filter", "nothing is called this")
        assert seen.page.locator("#matches").inner_text() == "Nothing found"
        assert headings(seen.page) == [], "none is left without what it heads"
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
            assert headings(seen.page)[-2:] == ["How to read this report", "What do the terms mean?"]


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


LEGEND = """list => [...list.children].map(entry =>
  [entry.textContent.trim(), getComputedStyle(entry.firstElementChild).backgroundColor])"""
DOTS = "all => all.map(dot => [getComputedStyle(dot).fill, dot.getAttribute('visibility')])"


@pytest.fixture
def page(material: Material, inside: Inside, tmp_path: Path) -> Callable[..., Path]:
    """Makes a page with an explorer of given sentences, labels and classes."""

    def made(**changed: object) -> Path:
        path = tmp_path / "index.html"
        path.write_text(material.explored(inside(**changed)), "utf-8")
        return path

    return made


def legend(seen: Seen) -> dict[str, str]:
    """Colour by class."""
    return dict(seen.page.locator(".explorer .legend").evaluate(LEGEND))


def colours(seen: Seen) -> list[str]:
    """Of each sentence's dot."""
    return [colour for colour, _ in seen.page.locator(".explorer circle").evaluate_all(DOTS)]


def slide(seen: Seen, name: str, value: int) -> None:
    slider = seen.page.locator(f".explorer input[name='{name}']")
    slider.focus()
    slider.press("Home")
    for _ in range(value):
        slider.press("ArrowRight")


def test_dots_legend_axes_and_sliders(page: Callable[..., Path]) -> None:
    """It starts at the last layer of the chosen snapshot; one point is said and not drawn."""
    with opened(page()) as seen:
        shown = seen.page.locator(".explorer .sliders").inner_text()
        assert "additive" in shown
        assert "update 64 (chosen)" in shown
        facts = seen.page.locator(".explorer .facts")
        said = "x: first axis of a plane, 75.0 % of this snapshot's variance; y: second, 12.5 %."
        assert facts.inner_text() == said
        named = legend(seen)
        assert list(named) == ["negative", "positive"]
        assert len(set(named.values())) == 2
        assert colours(seen) == [named[name] for name in ("positive", "negative", "positive", "negative")]
        seen.page.locator(".explorer circle").nth(1).hover(force=True)
        assert seen.page.locator("output.sentence").inner_text() == "negative: a dull one"
        for slider, value, visibility in (("layer", 0, "hidden"), ("arm", 1, "visible")):
            slide(seen, slider, value)
            dots = seen.page.locator(".explorer circle").evaluate_all(DOTS)
            assert {one for _, one in dots} == {visibility}
            assert ("All sentences share their vectors" in facts.inner_text()) == (visibility == "hidden")
        assert seen.complaints == []
        assert seen.requests == []


def test_sentences_without_a_class_are_no_ones_colour(page: Callable[..., Path]) -> None:
    with opened(page(labels=[1, -1, 0, -1])) as seen:
        named = legend(seen)
        assert set(named) == {"no class", "negative", "positive"}
        assert len(set(named.values())) == 3
        assert colours(seen) == [named[name] for name in ("positive", "no class", "negative", "no class")]


def test_a_class_that_is_a_number_is_called_a_class_and_a_hostile_one_is_text(page: Callable[..., Path]) -> None:
    with opened(page(classes=["0", "<img src=x>"])) as seen:
        assert list(legend(seen)) == ["class 0", "<img src=x>"]
        assert seen.page.locator(".explorer img").count() == 0
        assert seen.requests == []
