"""The page in a browser: drawn, legible, and no wider than the screen."""

from pathlib import Path

import pytest

from browser import Seen, opened
from isoscope.figures.style import ARM_COLOURS
from report_material import Material

pytestmark = pytest.mark.chromium

# Boxes wider than the window, outside what scrolls by itself.
TOO_WIDE = """() => [...document.querySelectorAll("body *")].filter(e =>
  !e.closest(".scroll > *") && !e.classList.contains("skip") && e.getBoundingClientRect().right > innerWidth + 1
).map(e => e.outerHTML.slice(0, 80))"""
# Luminance contrast of an element's colour with the page's background (WCAG 2).
CONTRAST = """selector => {
  const light = colour => {
    const part = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const page = light(getComputedStyle(document.body).backgroundColor);
  return [...document.querySelectorAll(selector)].map(e => {
    const style = getComputedStyle(e);
    const ink = light(e instanceof SVGElement ? style.fill : style.color);
    return (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
  });
}"""


@pytest.fixture(scope="module")
def file(material: Material, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(material.page(), "utf-8")
    return path


def heights(seen: Seen) -> list[float]:
    """Font size on the screen, in pixels, of every text in the first figure."""
    return seen.page.evaluate(
        """() => [...document.querySelectorAll("#content svg")].slice(0, 1).flatMap(svg => {
          const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
          return [...svg.querySelectorAll("text")].map(t => parseFloat(getComputedStyle(t).fontSize) * scale);
        })"""
    )


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_reads_and_asks_for_nothing(file: Path, width: int, dark: bool) -> None:
    with opened(file, width=width, dark=dark) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.page.evaluate(TOO_WIDE) == []
        for figure in seen.page.locator("figure svg").all():
            box = figure.bounding_box()
            assert box is not None
            assert box["width"] >= 600 or width == 1280
            assert box["height"] > 150
        sizes = heights(seen)
        assert len(sizes) > 20
        assert min(sizes) >= 9
        assert min(seen.page.evaluate(CONTRAST, "p, li, td, th, figcaption, caption, dd, dt, a")) >= 4.5
        assert min(seen.page.evaluate(CONTRAST, "#study-1-training-axes_1 text")) >= 7
        assert seen.requests == []
        assert seen.complaints == []


@pytest.mark.parametrize("colour", ARM_COLOURS[:3])
def test_curves_are_drawn_within_their_axes(file: Path, colour: str) -> None:
    with opened(file) as seen:
        frame = seen.page.locator("#study-1-training-patch_2 path").bounding_box()
        curves = seen.page.locator(f"#study-1-training-axes_1 [id*=line2d] > path[style*='stroke: {colour}']").all()
        boxes = [box for curve in curves if (box := curve.bounding_box()) is not None]
        assert len(boxes) == 2  # train and validation
        assert frame is not None
        for box in boxes:
            assert frame["x"] - 2 <= box["x"]
            assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 2
            assert box["width"] > frame["width"] / 2
            assert box["height"] > frame["height"] / 4


def test_a_digest_leads_to_its_run(file: Path, material: Material) -> None:
    digest = material.studies[0].runs[4].digest
    with opened(file) as seen:
        seen.page.locator(f"figcaption a[href='#run-{digest}']").first.click()
        row = seen.page.locator("tr:target")
        assert digest[:12] in (row.text_content() or "")
        row.scroll_into_view_if_needed()
        assert row.is_visible()


def test_a_wide_table_scrolls_with_the_keyboard(file: Path) -> None:
    with opened(file, width=400) as seen:
        table = seen.page.locator(".scroll:has(table)").first
        table.focus()
        seen.page.keyboard.press("ArrowRight")
        seen.page.wait_for_timeout(400)
        assert table.evaluate("e => e.scrollLeft") > 0
