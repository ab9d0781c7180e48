"""Labels of any script in a figure of a page: the browser draws them, with any font of the machine that has them."""

from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Page

from browser import opened
from isoscope.platform.figures.line_form import Curves
from isoscope.platform.figures.style import to_svg
from isoscope.platform.report import inline_svg
from tiny_font import LABELS, write_font

pytestmark = pytest.mark.chromium
ARABIC, NOBODYS = LABELS[1], "\U0010fffc"
# Of each text of a figure, the characters that look like one that no font has. Spaces and marks have no shape alone.
BOXES = r"""labels => {
  const canvas = Object.assign(document.createElement("canvas"), {width: 60, height: 60});
  const context = canvas.getContext("2d", {willReadFrequently: true});
  const seen = (text, family) => {
    context.clearRect(0, 0, 60, 60);
    context.font = `30px ${family}`;
    context.fillText(text, 10, 40);
    return context.getImageData(0, 0, 60, 60).data.join();
  };
  return [...document.querySelectorAll(".drawing svg text")].filter(one => labels.includes(one.textContent.trim()))
    .map(one => {
      const family = getComputedStyle(one).fontFamily;
      const box = seen("\u{10FFFD}", family);
      const letters = [...one.textContent].filter(letter => !/[\s\p{M}]/u.test(letter));
      return [one.textContent.trim(), letters.filter(letter => seen(letter, family) === box).join("")];
    });
}"""
# Of a text: whether its first character is right of its last, and its width over the widths of its characters alone.
ORDER = r"""label => {
  const one = [...document.querySelectorAll(".drawing svg text")].find(one => one.textContent.trim() === label);
  const context = document.createElement("canvas").getContext("2d");
  context.font = `100px ${getComputedStyle(one).fontFamily}`;
  const width = text => context.measureText(text).width;
  const letters = [...label];
  return [one.getStartPositionOfChar(0).x > one.getStartPositionOfChar(letters.length - 1).x,
    width(label) / letters.map(width).reduce((sum, one) => sum + one)];
}"""
FORM = Curves(x="at", y="value", columns="panel", labels=("Update", "Value"))


def page(folder: Path) -> Path:
    """A page with a figure of a curve for each label, drawn as reports have it."""
    rows = [
        {"arm": label, "panel": panel, "at": at, "seed": 0, "value": place + at}
        for place, label in enumerate(LABELS)
        for panel in LABELS
        for at in range(3)
    ]
    svg = inline_svg.inline(to_svg(FORM(pd.DataFrame(rows))), key="k", title="Curves")
    css = Path(inline_svg.__file__).with_name("page.css").read_text("utf-8")
    file = folder / "page.html"
    head = f'<!doctype html><meta charset="utf-8"><style>{css}</style>'
    file.write_text(f'{head}<div class="drawing">{svg}</div>', "utf-8")
    return file


@pytest.fixture
def fonts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fontconfig, which Chromium asks, finds a font for all labels but the Arabic, which is DejaVu's."""
    others = "".join(label for label in LABELS if label not in (ARABIC, "plain"))
    write_font(tmp_path / "share/fonts", characters=others)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))


def boxes(page: Page) -> dict[str, str]:
    return dict(page.evaluate(BOXES, [*LABELS]))


@pytest.mark.usefixtures("fonts")
def test_no_label_has_a_box_and_arabic_is_joined_from_right_to_left(tmp_path: Path) -> None:
    with opened(page(tmp_path)) as seen:
        assert boxes(seen.page) == dict.fromkeys(LABELS, "")
        right, joined = seen.page.evaluate(ORDER, ARABIC)
        assert right
        assert joined < 0.9, "letters that are joined are narrower than letters alone"
        assert seen.page.evaluate(ORDER, "plain") == [False, pytest.approx(1, abs=0.05)]
        seen.page.evaluate("text => document.querySelectorAll('text').forEach(one => one.textContent = text)", NOBODYS)
        assert seen.page.evaluate(BOXES, [NOBODYS])[0] == [NOBODYS, NOBODYS], "negative control"
