"""Tables as CSV that a spreadsheet opens without running a cell as a formula (CSV injection)."""

import json
from typing import Any

import numpy as np
import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\n")


def csv_text(table: pd.DataFrame, **settings: Any) -> str:
    """Return a table as CSV; a name or text that a spreadsheet could run gets an apostrophe. Equal tables, equal text.

    A cell of several values is written as a JSON list, whole; NaN is null.
    `settings`: further arguments of `pandas.DataFrame.to_csv`.
    """
    texts = {name: column.map(_inert) for name, column in table.items() if not pd.api.types.is_numeric_dtype(column)}
    return table.assign(**texts).rename(columns=_inert).to_csv(index=False, lineterminator="\n", **settings)


def _inert(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f":  # the fewest digits that give the number again
            value = np.where(np.isnan(value), np.array(None), value.astype(str).astype(float))
        return json.dumps(value.tolist(), ensure_ascii=False)
    if not isinstance(value, str):
        return value
    value = value.replace("\r", "\n")  # pandas quotes only the latter, and a spreadsheet starts a row at both
    return f"'{value}" if value.lstrip("'")[:1] in FORMULA else value


def as_it_was(cell: str) -> str:
    """Return the text that `csv_text` has written as `cell`."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'")[:1] in FORMULA else cell
