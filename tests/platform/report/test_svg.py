"""An inlined figure keeps its drawing and shares no ids or style with the page."""

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from finished_runs import write_run
from isoscope.platform.figures.style import to_svg
from isoscope.platform.outputs import table_of_metrics
from isoscope.platform.report.inline_svg import inline
from isoscope.studies.arms.views import TRAINING
from isoscope.studies.curves import bands, curves, seeds


@pytest.fixture(scope="module")
def drawing(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = write_run(tmp_path_factory.mktemp("runs"), "additive", 0)
    points = curves([folder])
    return to_svg(TRAINING.form(bands(points), seeds(points), table_of_metrics([])))


def ids(svg: str) -> list[str]:
    return re.findall(r' id="([^"]+)"', svg)


def paths(svg: str) -> list[list[float]]:
    """Return the places of each path. Every command between them is a line or a move, in the page and before."""
    texts = [element.get("d", "") for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path")]
    return [[float(number) for number in re.findall(r"-?\d+\.?\d*", text)] for text in texts]


def test_the_drawing_is_the_same(drawing: str) -> None:
    before, after = paths(drawing), paths(inline(drawing, key="a", title="t", description="d"))
    for one, other in zip(after, before, strict=True):
        assert one == pytest.approx(other, abs=0.01)


def test_styles_are_kept_as_classes(drawing: str) -> None:
    """Each element has the style that it had: by class, or, if it refers to an id, as its own."""
    rules = dict(re.findall(r"\.(s[0-9a-f]{6})\{([^{}]*)\}", inline(drawing, key="a", title="t", description="d")))
    root = ElementTree.fromstring(inline(drawing, key="a", title="t", description="d"))
    after = Counter(rules[name] for element in root.iter() if (name := element.get("class")))
    styles = (element.get("style", "url(") for element in ElementTree.fromstring(drawing).iter())
    plain = (re.sub(r";? *$|(?<=[:;]) +", "", style) for style in styles if "url(" not in style)
    before = Counter(plain)
    assert after == before
    assert len(rules) > 5


def test_two_on_one_page_share_neither_ids_nor_styles(drawing: str) -> None:
    one, two = (inline(drawing, key=key, title="t", description="d") for key in "ab")
    assert ids(drawing)
    assert not set(ids(one)) & set(ids(two))
    assert len(ids(one)) == len(set(ids(one)))
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', one)) <= set(ids(one))
    assert "*{stroke" in drawing
    (sheet,) = re.findall(r"<style>(.*?)</style>", one)
    assert re.fullmatch(r"(\.s[0-9a-f]{6}\{[^{}*]*\})+", sheet), "rules of classes only"
    assert not re.search(r"<metadata|<\?xml|<!DOCTYPE|rdf", one)
    assert len(one) < 0.6 * len(drawing)


def test_name_and_description_are_spoken_and_escaped(drawing: str) -> None:
    svg = inline(drawing, key="a", title="<b>1 & 2</b>", description='"said"')
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    by_id = {element.get("id"): element.text for element in root.iter()}
    assert [by_id[name] for name in (root.get("aria-labelledby") or "").split()] == ["<b>1 & 2</b>", '"said"']
    assert "<b>" not in svg
    assert ">Last values: " in inline(drawing, key="a", title="t"), "the figure's own description"


def test_what_is_no_svg_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not an SVG"):
        inline("<svg", key="a", title="t", description="d")
