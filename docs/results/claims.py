"""The table of README: published claims, each with a row of a page's table and the verdict of that row."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from written import NONE, Table


class Claim(NamedTuple):
    """A published sentence, and the row that tests it: a table of a page, and the row's first cells."""

    says: str
    table: str
    row: tuple[str, ...]
    scale: str


SST2, CAPTIONS = "SST-2, 6 × 384", "captions, {} × 128"
CLAIMS = (
    Claim(
        "Conv2D ends 10 points of accuracy below addition (Li 2025)",
        "fusion/differences",
        ("Conv2D N(0, 1) − additive N(0, 0.02²) (Li 2025)",),
        SST2,
    ),
    Claim(
        "the same with equal word and position tables",
        "fusion/differences",
        ("Conv2D − additive, both N(0, 0.02²)",),
        SST2,
    ),
    Claim(
        "circular convolution fails since magnitudes cancel (Li 2025)",
        "remedies/own_causes",
        ("magnitudes kept",),
        SST2,
    ),
    Claim("or since it hides which word it is (our claim)", "remedies/own_causes", ("identity readable",), SST2),
    Claim(
        "a feed-forward component lowers the loss more than one of attention (Vázquez et al. 2022), MLM",
        "dynamics/claims_published",
        ("MLM: a feed-forward component − an attention component",),
        CAPTIONS.format(4),
    ),
    Claim(
        "the objective decides the dynamics, not the data (Vázquez et al. 2022)",
        "dynamics/decides",
        ("all, hellinger",),
        CAPTIONS.format(4),
    ),
    Claim(
        "AvgSim's last step is steep in MT (Vázquez et al. 2021)",
        "spaces/claims",
        ("AvgSim's last step is steep in MT: (2 − 1) − (1 − 0)", "captions"),
        CAPTIONS.format(2),
    ),
    Claim(
        "an aligned encoder translates, in BLEU (Vázquez et al. 2021)",
        "hybrids/claims",
        ("an aligned encoder translates, as aligned",),
        CAPTIONS.format(2),
    ),
)


def claims(tables: Mapping[str, Callable[[], Table]]) -> Table:
    """Return each claim with the difference that was measured, its interval, verdict, scale and page."""
    made = {name: tables[name]() for name in dict.fromkeys(one.table for one in CLAIMS)}
    rows = []
    for claim in CLAIMS:
        table, page = made[claim.table], claim.table.partition("/")[0]
        (found,) = (row for row in table.rows if tuple(row[: len(claim.row)]) == claim.row)
        cells = dict(zip(table.head, found, strict=True))
        between = cells.get("over seeds and sentences", NONE)
        mean = cells["mean" if "mean" in cells else "difference"]
        measured = re.sub(r"([+−])0\.", r"\1.", mean + f" {between}" * (between != NONE))
        verdict = cells["verdict"].partition(":")[0]
        rows.append((claim.says, measured, verdict, claim.scale, f"[{page}](docs/results/{page}.md)"))
    return Table(("claim", "measured, with interval", "verdict", "scale", "page"), rows)
