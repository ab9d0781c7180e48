"""Draw all figures of a search in the project's style.

optuna.visualization.matplotlib draws through pyplot's global state, in colours that a dark page hides, and leaves out
trials that lack a conditional parameter.
"""

from collections.abc import Iterator, Mapping

import pandas as pd
from matplotlib.figure import Figure
from optuna.study import Study

from isoscope.figures.search_captions import caption
from isoscope.figures.search_course import history, intermediate, pruning
from isoscope.figures.search_outcome import fronts, importance_bars
from isoscope.figures.search_space import slices
from isoscope.figures.searched import Searched, searched
from isoscope.figures.style import to_svg


def pictures(
    study: Study,
    importances: pd.DataFrame,
    *,
    chosen: int | None,
    least: int,
    metadata: Mapping[str, str] | None = None,
) -> list[tuple[str, str, str, str]]:
    """Return (name, title, caption, SVG) of every figure with data, in order. Equal studies give equal bytes.

    - `chosen`: number of the trial to mark, best or suggested; None marks none.
    - `importances`: columns architecture, objective, parameter, importance, low, high; an architecture with fewer than
      `least` complete trials has no rows.
    - `metadata`: as for `to_svg`.
    """
    view = searched(study, chosen=chosen)
    drawn = ((name, figure) for name, figure in _figures(view, importances, least) if figure is not None)
    return [(name, *caption(name), to_svg(figure, metadata)) for name, figure in drawn]


def _figures(view: Searched, importances: pd.DataFrame, least: int) -> Iterator[tuple[str, Figure | None]]:
    yield "history", history(view)
    yield "front", fronts(view)
    yield "importances", importance_bars(view, importances, least=least)
    for one in range(len(view.objectives)):
        yield _name("slice", one), slices(view, one)
    yield "intermediate", intermediate(view)
    yield "pruning", pruning(view)


def _name(kind: str, objective: int) -> str:
    """Return the figure's name for an objective; the first objective has no number."""
    return f"{kind}-{objective + 1}" if objective else kind
