"""Find text and legends that extend beyond a drawn figure; axis numbers are separate."""

from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text

from isoscope.platform.figures.style import to_svg

SLACK = 1.5
"""Pixels: the edge of a letter."""


def sticking_out(figure: Figure) -> list[str]:
    """Texts, and first words of legends, whose drawn extent is not within the figure's."""
    to_svg(figure)  # lays it out, as a page has it
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer, page = canvas.get_renderer(), figure.bbox
    ticks = {label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in axis.get_ticklabels()}
    found = []
    for one in figure.findobj(lambda artist: isinstance(artist, Text | Legend) and artist not in ticks):
        words = one.get_text() if isinstance(one, Text) else _first_words(one)
        if not one.get_visible() or not words.strip():
            continue
        box = one.get_window_extent(renderer)
        if box.x0 < -SLACK or box.y0 < -SLACK or box.x1 > page.x1 + SLACK or box.y1 > page.y1 + SLACK:
            found.append(words)
    return found


def _first_words(artist: Artist) -> str:
    return f"legend: {artist.get_texts()[0].get_text()}" if isinstance(artist, Legend) else ""
