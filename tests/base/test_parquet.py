"""Parquet tables round-trip, equal tables have equal bytes, and a table is written whole or not at all."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.base.parquet import write_parquet


def table() -> pd.DataFrame:
    """Every kind of column that a table of a run has."""
    return pd.DataFrame(
        {
            "snapshot": ["step-0", "step-4", "random"],
            "step": pd.array([0, 4, None], "Int64"),
            "best": [False, True, False],
            "layer": np.array([0, 1, 2]),
            "value": [0.1, np.nan, 1e-300],
            "pc1": np.array([0.5, 1.5, -2.5], np.float32),
            "note": [None, "all points are one", None],
        }
    )


def test_what_went_in_comes_out(tmp_path: Path) -> None:
    path = tmp_path / "folders/that/are/not/there/table.parquet"
    write_parquet(table(), path)
    found = pd.read_parquet(path)
    assert list(found.columns) == list(table().columns)
    for name in ("snapshot", "best", "layer", "value", "pc1"):
        pd.testing.assert_series_equal(found[name], table()[name], check_dtype=name != "snapshot")
    assert found["step"].tolist()[:2] == [0, 4]
    assert found[["step", "note"]].isna().to_numpy().tolist() == [[False, True], [False, False], [True, True]]
    assert [one.name for one in path.parent.iterdir()] == ["table.parquet"]
    assert pq.read_schema(path).field("step").type == pa.int64()
    assert pq.read_schema(path).metadata is None  # of the library that wrote it


def test_equal_tables_are_equal_bytes_whatever_their_index(tmp_path: Path) -> None:
    """An index is no column: a table that was filtered or sorted is the same table."""
    shuffled = pd.concat([table().iloc[[2]], table().iloc[:2]]).loc[[0, 1, 2]]
    tables = {"one": table(), "again": table(), "index": table().set_index(np.array([7, 8, 9])), "order": shuffled}
    for name, one in tables.items():
        write_parquet(one, tmp_path / name)
    assert len({(tmp_path / name).read_bytes() for name in tables}) == 1
    write_parquet(table().iloc[::-1], tmp_path / "other")
    assert (tmp_path / "other").read_bytes() != (tmp_path / "one").read_bytes()


def test_a_table_without_rows_or_columns_can_be_read(tmp_path: Path) -> None:
    write_parquet(pd.DataFrame(), tmp_path / "nothing")
    assert pd.read_parquet(tmp_path / "nothing").shape == (0, 0)
    write_parquet(table().iloc[:0], tmp_path / "no rows")
    assert list(pd.read_parquet(tmp_path / "no rows").columns) == list(table().columns)


def test_a_process_that_stops_before_the_table_counts_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    write_parquet(table(), path)
    before, seen = path.read_bytes(), []
    listening = True

    def stop(event: str, given: tuple[Any, ...]) -> None:
        if listening and event == "isoscope.durable":
            seen.append(given)
            if len(seen) == 2:
                raise KeyboardInterrupt

    sys.addaudithook(stop)  # there is no taking it off
    try:
        with pytest.raises(KeyboardInterrupt):
            write_parquet(table().iloc[:1], path)
    finally:
        listening = False
    assert seen == [("table", os.fspath(path))] * 2
    assert path.read_bytes() == before
    write_parquet(table().iloc[:1], path)
    assert len(pd.read_parquet(path)) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["table.parquet"]
