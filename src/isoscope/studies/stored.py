"""A study's tables where its stages left them."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

import pandas as pd


class StoredTables(Mapping[str, pd.DataFrame]):
    """The parquet tables of a folder by name, each read when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, pd.DataFrame] = {}

    @cached_property
    def _names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob("*.parquet"))

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._read:
            self._read[name] = pd.read_parquet(self._folder / f"{name}.parquet")
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
