"""How long a token's word and position can be read back: a linear map's success at each layer."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isoscope.figures.snapshots import arms_of, at_chosen, banded, keys, prepared
from isoscope.figures.style import INK, WIDTH, legend_below, look, multiples, style
from isoscope.studies.view import Table, View

READ = {"word": "Word", "position": "Position"}


def by_layer(decoding: pd.DataFrame) -> Table:
    """Return the rows at the chosen snapshot with a column `layer`: 0 after the embedding block."""
    part = decoding["part"].astype(str)
    layer = part.str.extract(r"^layer (\d+)$")[0].where(part != "normed", "0")
    return (decoding.assign(layer=layer)[layer.notna()].astype({"layer": int}),)


@style()
def read_back(decoding: pd.DataFrame) -> Figure:
    """Draw the share of tokens whose word, and whose position, a linear map reads at each layer, from 0 to 1.

    A line per arm: mean over seeds ± 1 sd. Dotted: the same map fitted on shuffled pairs.
    """
    table = at_chosen(prepared(decoding))
    arms = arms_of(table)
    figure, panels = multiples(
        {"": "Share of tokens"}, READ, (WIDTH, 2.4 + 0.1 * len(arms)), across="Layer", sharey=True
    )
    for (_, read), axes in panels.items():
        axes.set_ylim(-0.03, 1.03)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        rows = table[table["read"] == read]
        for index, arm in enumerate(arms):
            banded(axes, rows[rows["arm"] == arm], "layer", "rate", marks=12, **look(index))
        control = rows.groupby("layer")["control"].mean()
        axes.plot(control.index, control, color=INK, linestyle=(0, (1, 1.5)), linewidth=1.0, gid="control")
    legend_below(figure, keys(table, 2.0), columns=3)
    return figure


def _spoken(decoding: pd.DataFrame) -> str:
    table = at_chosen(prepared(decoding))
    means = table[table["layer"] == table["layer"].max()].groupby(["arm", "read"], sort=False)["rate"].mean()
    said = "; ".join(f"{arm}, {read} {rate:.2f}" for (arm, read), rate in means.items())
    return f"Read back at the last layer: {said}."


READ_BACK = View(
    name="read_back",
    needs=("decoding",),
    rows=by_layer,
    draw=read_back,
    caption=(
        "Share of tokens whose word and whose position a linear map reads from their vector, at the chosen epoch, by "
        "layer (0: after the embedding block). Mean over seeds ± 1 sd; sentences are held out. Dotted: a map fitted on "
        "shuffled pairs, mean over arms."
    ),
    spoken=_spoken,
)
