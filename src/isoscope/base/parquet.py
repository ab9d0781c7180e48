"""Write parquet files atomically; equal tables give equal bytes."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from isoscope.base.atomic_files import announce, sync


def write_parquet(table: pd.DataFrame, path: Path) -> None:
    """Write a table to a parquet file."""
    announce("table", path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.writing")
    bare = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    pq.write_table(bare, fresh, compression="zstd")
    sync(fresh)
    announce("table", path)
    fresh.replace(path)
