"""The table of README: published claims, each with a row of a page's table and the verdict of that row."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from written import NONE, Table, number, short


class Claim(NamedTuple):
    """A published sentence, and the row that tests it: a table of a page, and the row's first cells."""

    says: str
    table: str
    row: tuple[str, ...]
    scale: str


LATER, EPOCHS = "scratch/differences", "SST-2, 6 × 384, 25 epochs"
SST2, CAPTIONS = "SST-2, half, 6 × 384", "captions, {} × 128"
CHANGES, MRPC = "isotropy/changes", "MRPC, MiniLM"
LI, V21, V22 = "Li 2025", "Vázquez et al. 2021", "Vázquez et al. 2022"
SHRINK = "Shrink the Longest"
CLAIMS = (
    Claim(
        f"Conv2D with {LI}'s tables ends below addition ({LI}: by .10), accuracy",
        "fusion/differences",
        ("Conv2D N(0, 1) − additive N(0, 0.02²) (Li 2025)",),
        SST2,
    ),
    Claim(
        "the same with equal small tables, accuracy",
        "fusion/differences",
        ("Conv2D − additive, both N(0, 0.02²)",),
        SST2,
    ),
    Claim(
        f"Conv2D with {LI}'s tables is below addition, 25 epochs, accuracy at the selected epoch",
        LATER,
        ("test accuracy", "conv2d_unit − additive"),
        EPOCHS,
    ),
    Claim(
        f"FFT with {LI}'s tables is below addition, 25 epochs, accuracy at the selected epoch",
        LATER,
        ("test accuracy", "fft_unit − additive"),
        EPOCHS,
    ),
    Claim(
        f"Conv2D's mean cosine of tokens differs from addition's ({LI}: Conv2D's map is the warmest)",
        LATER,
        ("mean cosine of tokens", "conv2d_unit − additive"),
        EPOCHS,
    ),
    Claim(
        f"FFT: kept magnitudes raise accuracy ({LI} supposes that they cancel)",
        "remedies/own_causes",
        ("magnitudes kept",),
        SST2,
    ),
    Claim(
        "FFT: arms that pass the word end higher, accuracy (ours)", "remedies/own_causes", ("identity readable",), SST2
    ),
    Claim(
        f"the penalty (selected bars) lowers a₁ of batches ({SHRINK})",
        CHANGES,
        ("a₁ of batches", "selected − none"),
        MRPC,
    ),
    Claim(
        f"selected bars lower a₁, mean removed, more than all bars do ({SHRINK}, Table 3)",
        CHANGES,
        ("a₁ of batches, mean removed", "selected − all"),
        MRPC,
    ),
    Claim(
        f"the penalty (selected bars) changes test accuracy ({SHRINK}: the same or better)",
        "isotropy/costs",
        ("test accuracy", "selected − none"),
        MRPC,
    ),
    Claim(
        f"a feed-forward component lowers the loss more than one of attention ({V22}), MLM, share",
        "dynamics/claims_published",
        ("MLM: a feed-forward component − an attention component",),
        CAPTIONS.format(4),
    ),
    Claim(
        f"the objective explains more of the dynamics than the data do ({V22}), share of variance",
        "dynamics/decides",
        ("all, hellinger",),
        "captions and Finnish, 4 × 128",
    ),
    Claim(
        f"AvgSim: MT's last step is steeper than the step before it ({V21})",
        "spaces/claims",
        ("AvgSim's last step is steep in MT: (2 − 1) − (1 − 0)", "captions"),
        CAPTIONS.format(2),
    ),
    Claim(
        f"an aligned encoder translates better than an unaligned one ({V21}), BLEU",
        "hybrids/claims",
        ("an aligned encoder translates, as aligned",),
        CAPTIONS.format(2),
    ),
    Claim(
        "what the encoder had learned before the alignment helps it, BLEU (ours)",
        "hybrids/claims",
        ("the masked model's training helps, as aligned",),
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
        intervals = [cells.get(name, NONE) for name in ("over seeds and sentences", "over seeds")]
        between = next((one for one in intervals if one != NONE), NONE)
        mean = cells["mean" if "mean" in cells else "difference"]
        measured = re.sub(r"[+−][\d.]+", _brief, f"{mean} {between}" if between != NONE else mean)
        verdict = cells["verdict"].partition(":")[0]
        seeds = cells.get("seeds", NONE)
        rows.append((claim.says, measured, seeds, verdict, claim.scale, f"[{page}](docs/results/{page}.md)"))
    return Table(("claim", "measured, with interval", "seeds", "verdict", "scale", "page"), rows)


def _brief(found: re.Match[str]) -> str:
    """Write a number with one decimal from 10 on, else without the zero before the point."""
    value = float(found[0].replace("−", "-"))
    return number(value, 1, sign=True) if abs(value) >= 10 else short(value, sign=True)
