"""Vectors that somebody has computed, in a file or an array: rows are taken, checked and hashed part by part."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tqdm import tqdm

from isoscope.base.errors import InputError
from isoscope.data.arrays import Indices, Vectors
from isoscope.data.columns import LARGEST
from isoscope.data.files import Raw

PART = 1 << 26
"""Bytes of a part that is read at a time."""
Parts = Iterator[npt.NDArray[Any]]


class GivenRows(NamedTuple):
    """Vectors `[rows, width]` in a file or an array. `parts` reads them from the start, some rows at a time.

    `place`: what errors name. `columns`: the tensor, the column of lists, or the columns of numbers that they consist
    of. `further(names)`: other columns, as `read_file`; None: there are none.
    """

    place: str
    rows: int
    width: int
    dtype: str
    columns: tuple[str, ...]
    parts: Callable[[], Parts]
    further: Callable[[Sequence[str]], Raw] | None = None
    whole: tuple[str, ...] = ()
    """Columns of whole numbers beside columns of fractions: perhaps no vectors but numbers of rows."""

    @property
    def facts(self) -> dict[str, Any]:
        """What a page says of them."""
        return {name: getattr(self, name) for name in ("rows", "width", "dtype")} | {"columns": [*self.columns]}

    def take(self, wanted: Indices, title: str) -> Vectors:
        """Return the rows `wanted` `[n, width]`, fp32, in their order, after a check of all rows.

        Raises `InputError` with row and column of a value that is no finite number of at most `LARGEST`.
        """
        found, order, start = np.empty((len(wanted), self.width), np.float32), np.argsort(wanted, kind="stable"), 0
        ranked = wanted[order]
        with tqdm(total=self.rows, desc=f"{title}: rows", unit="row", unit_scale=True, disable=None) as bar:
            for part in self.parts():
                self._check(part, start)
                first, last = np.searchsorted(ranked, [start, start + len(part)])
                found[order[first:last]] = part[ranked[first:last] - start]
                start += len(part)
                bar.update(len(part))
        return found

    def _check(self, part: npt.NDArray[Any], start: int) -> None:
        if -LARGEST <= float(part.min()) <= float(part.max()) <= LARGEST:  # false with NaN; NumPy needs no copy for it
            return
        values = np.asarray(part, np.float64)  # half precision cannot be compared with a bound that it does not have
        row, column = map(int, np.argwhere(~(abs(values) <= LARGEST))[0])
        several = len(self.columns) > 1
        where = f"column {self.columns[column]!r}" if several else f"dimension {column}"
        raise InputError(
            f"{self.place}, row {start + row + 1}: {where} is {part[row, column]}; expected a finite number up to "
            f"{LARGEST:g}: correct it or drop the row"
        )


def of_array(array: Any, place: str, table: pa.Table | None = None) -> GivenRows:
    """Return an array `[N, D]` of NumPy or a tensor of torch as vectors, with further columns in a table.

    Raises `InputError` for another shape, and for a table of another length.
    """
    values = np.asarray(array.detach().cpu().float() if hasattr(array, "detach") else array)
    check_shape(place, values.shape, str(values.dtype), values.dtype.kind in "fiu")
    rows, width = values.shape
    if table is not None and len(table) != rows:
        raise InputError(f"{place}: {rows} vectors, but {len(table)} cells in {', '.join(table.column_names)}")
    further = None if table is None else lambda _: Raw(place, table)
    return GivenRows(place, rows, width, str(values.dtype), (), lambda: iter([values]), further)


def array_digest(rows: GivenRows) -> str:
    """Return the sha256 of the values of vectors, with their type and shape."""
    digest = hashlib.sha256(f"{rows.dtype} {rows.rows} {rows.width}\n".encode())
    for part in rows.parts():
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return the sha256 of a file; of a large file with a progress bar."""
    digest, size = hashlib.sha256(), path.stat().st_size
    bar = tqdm(
        total=size, desc=f"{path.name}: sha256", unit="B", unit_scale=True, disable=None if size > PART else True
    )
    with bar, path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
            bar.update(len(part))
    return digest.hexdigest()


def check_shape(place: str, shape: Sequence[int], dtype: str, numbers: bool) -> None:
    """Raise `InputError` for another shape than a matrix, and for another type than `numbers`."""
    if len(shape) != 2 or not numbers:
        raise InputError(
            f"{place}: holds {dtype} of shape {list(shape)}; expected numbers [rows, dimensions], a vector per row"
        )
