"""What a study of penalties claims: does a penalty change the anisotropy at the end of training?"""

from collections.abc import Iterator, Mapping

import pandas as pd

from isoscope.platform.config.declared import title
from isoscope.platform.statistics.findings import Difference, of_row
from isoscope.platform.statistics.paired import FEWEST_SEEDS

ASKED = ("step/a_1", "step/a_1_centred")


def claims(tables: Mapping[str, pd.DataFrame], *, confidence: float, margin: float) -> Iterator[Difference]:
    """Yield the difference of each arm from its reference in the share of the largest direction, with its verdict.

    Nothing below three seeds: the page says of all differences at once that they are under-powered.
    """
    rows = tables["differences"]
    for row in rows[rows["metric"].isin(ASKED) & (rows["n"] >= FEWEST_SEEDS)].to_dict("records"):
        yield of_row(row, title(str(row["metric"])), confidence=confidence, margin=margin)
