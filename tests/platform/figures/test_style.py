"""Colours are distinguishable on paper and on a dark page; files are reproducible."""

import io
from itertools import combinations
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from drawn import sticking_out
from isoscope.platform.figures.style import (
    ARM_COLOURS,
    ARM_MARKERS,
    HATCH,
    INK,
    legend_below,
    shade,
    style,
    to_png,
    to_svg,
    width,
    wrapped,
)

# Complete protanopia, deuteranopia and tritanopia in linear RGB: Machado et al. 2009, severity 1.
DEFICIENCIES = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def linear(colour: str) -> NDArray[np.float64]:
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIE L*a*b* of linear RGB (D65)."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    x, y, z = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2."""
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("page", ["#ffffff", "#14181d"])
def test_contrast_with_the_page(page: str) -> None:
    assert min(contrast(colour, page) for colour in (*ARM_COLOURS, HATCH)) >= 3.0
    assert len(set(ARM_MARKERS)) == len(set(ARM_COLOURS)) == len(ARM_MARKERS)


def test_contrast_of_text_and_of_lines_in_order() -> None:
    assert contrast(INK, "#ffffff") >= 7.0
    ordered = [to_hex(shade(place, count)["color"]) for count in (1, 2, 6, 12) for place in range(count)]
    assert min(contrast(colour, "#ffffff") for colour in ordered) >= 3.0


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_the_first_four_are_told_apart(deficiency: str) -> None:
    seen = [lab(np.clip(np.array(DEFICIENCIES[deficiency]) @ linear(colour), 0, 1)) for colour in ARM_COLOURS[:4]]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) >= 10


def drawn() -> Figure:
    """Made with a legend whose glyphs matplotlib's own fonts lack."""
    with style():
        figure = Figure(figsize=(2, 1), layout="constrained")
        legend_below(figure, figure.subplots().plot([0, 1], [0, 1], label="否定"), columns=1)
    return figure


def test_svg_carries_what_it_was_made_from() -> None:
    svg = to_svg(drawn(), {"Source": "digest 8406d364 & <b>"})
    assert "<dc:source>digest 8406d364 &amp; &lt;b&gt;</dc:source>" in svg
    assert "dc:date" not in svg
    assert svg == to_svg(drawn(), {"Source": "digest 8406d364 & <b>"})
    assert "dc:source" not in to_svg(drawn())
    with pytest.raises(ValueError, match="digest"):
        to_svg(drawn(), {"digest": "8406d364"})


def test_png_is_print_quality_and_carries_what_it_was_made_from() -> None:
    png = to_png(drawn(), metadata={"Source": "digest 8406d364"})
    image = Image.open(io.BytesIO(png))
    assert image.size == (600, 300)
    assert image.info["Source"] == "digest 8406d364"
    assert "Software" not in image.info
    assert png == to_png(drawn(), metadata={"Source": "digest 8406d364"})


def test_what_is_too_long_loses_its_middle_and_keeps_both_ends() -> None:
    for lines in (1, 2, 3):
        one, other = (wrapped(f"runs/{'a-long-name/' * 20}epoch-{k}", 2.0, lines=lines) for k in (1, 2))
        assert one != other
        assert one.startswith("runs/")
        assert one.endswith("epoch-1")
        assert "…" in one
        assert one.count("\n") < lines
    for name in ("balance_not_updated_after_bank_transfer", "card_payment_fee_charged"):  # a single word
        shown = wrapped(name, 0.8, lines=1)
        assert (shown[:3], shown[-3:], " … " in shown) == (name[:3], name[-3:], True)
    assert (wrapped("short", 2.0), wrapped("", 1.0)) == ("short", "")


@pytest.mark.parametrize("letter", ["i", "a", "W", "—"])
def test_wrapped_text_is_as_narrow_as_asked_whatever_its_letters(letter: str) -> None:
    inches = 2.0
    with style():
        figure = Figure(figsize=(8, 8))
        drawn_text = figure.text(0, 0.5, wrapped(letter * 300, inches, size=8, lines=3), fontsize=8, weight="bold")
        renderer = FigureCanvasAgg(figure).get_renderer()
    assert drawn_text.get_window_extent(renderer).width <= 1.12 * inches * figure.dpi


@pytest.mark.parametrize("character", ["\t", "\x00", "\x07", "\x1f", "\x85", "\u061c", "\u2067", "\ue000", "\ufffe"])
def test_a_class_with_a_character_that_no_font_has_is_drawn_into_valid_files(character: str) -> None:
    for name in (character, f"a{character}b"):
        assert width(name, 9.0) > 0.0
        with style():
            figure = Figure(figsize=(3, 2), layout="constrained", label=f"values of {name}")
            figure.text(0.5, 0.5, wrapped(name, 1.0))
            (line,) = figure.subplots().plot([1, 2], label=name)
            legend_below(figure, [line], columns=1)
        assert fromstring(to_svg(figure)).tag == "{http://www.w3.org/2000/svg}svg"
        assert to_png(figure)


def test_a_legend_of_given_columns_that_are_too_wide_is_seen_to_stick_out() -> None:
    """The control of the tests above."""
    with style():
        figure = Figure(figsize=(3.4, 3), layout="constrained")
        handles = [figure.subplots().plot([0, 1], label="a name of a usual length")[0] for _ in range(4)]
        figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=7.5)
    assert "legend: a name of a usual length" in sticking_out(figure)
