"""Labels of any script: a font of the machine in a PNG, or one line; in an SVG text, whatever fonts there are."""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from isoscope.platform.figures import fonts
from isoscope.platform.figures.fonts import give_fonts, lacking
from isoscope.platform.figures.style import style, to_png, to_svg
from tiny_font import LABELS, write_font

OTHERS = [label for label in LABELS if lacking(label)]
NOBODYS = "ꔀ"  # a letter of Vai, which the fonts of these tests lack


@pytest.fixture(autouse=True)
def _no_fonts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without fonts, which nothing has been said of."""
    monkeypatch.setattr(fonts, "findSystemFonts", list)
    monkeypatch.setattr(fonts, "_TOLD", set())
    forget()
    yield
    forget()


def forget() -> None:
    for cached in (fonts._installed, fonts.fallbacks):
        cached.cache_clear()


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A font for all labels is installed; its name."""
    name = f"Tiny Sans {tmp_path.name}"  # matplotlib remembers the file of a name
    file = write_font(tmp_path, name=name)
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    monkeypatch.setattr(fonts, "findSystemFonts", lambda: [str(broken), str(file)])
    return name


def figure(*labels: str) -> Figure:
    """Each label is that of a tick."""
    with style():
        made = Figure(figsize=(3, 2), layout="constrained")
        axes = made.subplots()
        axes.barh(range(len(labels)), 1)
        axes.set_yticks(range(len(labels)), labels)
    return made


def pixels(png: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(png)).convert("L"))


def test_the_usual_font_lacks_them_as_it_lacks_no_plain_text() -> None:
    assert [label for label in LABELS if label not in ("العربية", "plain")] == OTHERS
    assert lacking("naïve – ½ 100 % ±σ \u200d\n\u00ad") == frozenset()


@pytest.mark.parametrize("label", OTHERS)
def test_a_label_is_no_box_where_a_font_has_it(label: str, tiny: str) -> None:
    with_font = pixels(to_png(figure(label)))
    given = give_fonts(figure(label))
    assert {text.get_text() for text in given} == {label}
    assert all(text.get_fontfamily() == [fonts.USUAL, tiny] for text in given)
    box = pixels(to_png(figure(NOBODYS * len(label))))
    assert (with_font != box).any()
    shapes = {to_png(figure(character)) for character in label if lacking(character)}
    assert len(shapes) == len(lacking(label)), "each character has a shape of its own; a box is always the same"


def test_a_png_of_equal_labels_is_equal_and_an_svg_knows_no_font(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = figure(*LABELS)
    svg, png = to_svg(one), to_png(one)
    assert (to_svg(one), to_png(figure(*LABELS))) == (svg, png), "a PNG changes nothing of its figure"
    assert all(f">{label}<" in svg for label in LABELS), "whole words, in the order of reading"
    assert tiny not in svg
    monkeypatch.setattr(fonts, "findSystemFonts", list)
    forget()
    assert to_svg(figure(*LABELS)) == svg
    assert to_png(figure(*LABELS)) != png


def test_what_no_font_has_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    for labels in (LABELS, LABELS[:3], ("plain", "العربية")):
        to_png(figure(*labels))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "these characters: CJK, Devanagari, Hangul, Thai, emoji or symbol." in said
    assert "Install a font (Debian: fonts-noto-core" in said
    to_svg(figure(NOBODYS))
    assert capsys.readouterr().err == ""
    to_png(figure(NOBODYS))
    assert "characters: Vai." in capsys.readouterr().err


def test_few_fonts_are_taken_and_a_plain_font_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [
        write_font(tmp_path / part, name=f"{name} {tmp_path.name}", characters=characters)
        for part, name, characters in (("a", "A", "中"), ("b", "B Sans", "中文"), ("c", "C Sans Long", "中文ไ"))
    ]
    monkeypatch.setattr(fonts, "findSystemFonts", lambda: [str(file) for file in files])
    for characters, expected in (("中", "B Sans"), ("中文", "B Sans"), ("中文ไ", "C Sans Long")):
        assert fonts.fallbacks(frozenset(characters)) == (f"{expected} {tmp_path.name}",)
