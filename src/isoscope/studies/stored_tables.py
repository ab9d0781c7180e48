"""Read the tables that a study's stages wrote."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd


class StoredTables(Mapping[str, pd.DataFrame]):
    """The parquet tables of a folder by name; a table is read on access."""

    def __init__(self, folder: Path) -> None:
        self._paths = {path.stem: path for path in sorted(folder.glob("*.parquet"))}

    def __getitem__(self, name: str) -> pd.DataFrame:
        return pd.read_parquet(self._paths[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)
