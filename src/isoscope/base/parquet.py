"""Write parquet files atomically; equal tables give equal bytes."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from isoscope.base.atomic_files import replacing_file


def write_parquet(table: pd.DataFrame, path: Path) -> None:
    """Write a table to a parquet file."""
    bare = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    with replacing_file(path, "table") as fresh:
        pq.write_table(bare, fresh, compression="zstd")


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Write each table to the parquet file of its name."""
    for name, table in tables.items():
        write_parquet(table, folder / f"{name}.parquet")
