"""The explorer in a browser: points at their positions, and a legend that names each class's colour."""

from collections.abc import Callable
from pathlib import Path

import pytest

from browser import Seen, opened
from report_material import Material

pytestmark = [pytest.mark.chromium, pytest.mark.usefixtures("one_browser")]
Inside = Callable[..., Path]
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
