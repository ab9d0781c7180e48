"""Read the loss change allocation of a study's runs, and sum it by groups."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa

from isoscope.base.errors import InputError
from isoscope.platform.outputs import Output
from isoscope.platform.results.paired_comparison import Arms

ALLOCATION, CLOSURE, MINIBATCH = ALLOCATED = ("allocation.parquet", "closure.parquet", "minibatch.parquet")
"""What `training.allocation` writes into a run's output (`isoscope.training.allocation_tables` has the columns)."""
SHOWN = "validation"
"""The set that figures show."""
COMPONENTS = ("emb", "pos", "fusion", "query", "key", "value", "out", "W1", "W2", "LayerNorm", "other")
STACKS = ("enc", "dec", "cross", "shared")
OUTSIDE = -1
"""Layer of what is in no layer: embeddings, and the head of a language model."""
BLOCK = ["stack", "layer", "component"]


class AllocatedRun(NamedTuple):
    """A run with its tables, without categories; `layer` is a whole number, `OUTSIDE` where there is none."""

    arm: str
    seed: int
    output: Output
    allocation: pd.DataFrame
    """Rows of the fixed sets."""
    closure: pd.DataFrame
    minibatch: pd.DataFrame
    """The minibatch estimator at every update; without rows if it was not asked for."""

    @property
    def updates(self) -> int:
        """The last allocated update."""
        return int(self.allocation["update"].max())

    @property
    def shown(self) -> pd.DataFrame:
        """The rows of the set that figures show."""
        return self.allocation[self.allocation["set"] == SHOWN]

    @property
    def starts(self) -> pd.Series:
        """The start of each interval of this set, by its end."""
        return self.shown.drop_duplicates("update").set_index("update")["start"].sort_index()


def allocated_runs(arms: Arms) -> list[AllocatedRun]:
    """Return the runs that have an allocation, in the order of arms and seeds.

    Raises `InputError` if a file is damaged.
    """
    return [
        read_run(arm, seed, result.output)
        for arm, runs in arms.items()
        for seed, result in runs.items()
        if all((result.output.folder / name).is_file() for name in (ALLOCATION, CLOSURE))
    ]


def read_run(arm: str, seed: int, output: Output) -> AllocatedRun:
    """Return a run that has an allocation. Raises `InputError` if a file is missing or damaged."""
    allocation, closure = read_table(output.folder / ALLOCATION), read_table(output.folder / CLOSURE)
    last = output.folder / MINIBATCH
    empty = pd.DataFrame(columns=["update", *BLOCK, "value"])
    minibatch = read_table(last) if last.is_file() else empty
    return AllocatedRun(arm, seed, output, allocation[allocation["set"] != "batch"], closure, minibatch)


def read_table(path: Path) -> pd.DataFrame:
    """Read a table; words become objects, because a group of a category without rows would be a row of zeros."""
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {str(error).splitlines()[0]}; train this run again") from None
    words = {name: object for name in table.columns if isinstance(table[name].dtype, pd.CategoricalDtype)}
    numbers = {name: table[name].fillna(OUTSIDE).astype(int) for name in ("layer", "head") if name in table}
    return with_shared(table.astype(words).assign(**numbers))


def with_shared(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which a word table that encoder and decoder share is in the stack `shared`, not in `enc`."""
    if "component" not in table:
        return table
    words = table["component"] == "emb"
    tied = {"enc", "dec"} <= set(table["stack"]) and set(table.loc[words, "stack"]) == {"enc"}
    return table.assign(stack=table["stack"].mask(words, "shared")) if tied else table


def fold_names(allocation: pd.DataFrame) -> list[str]:
    """Return the columns of the numbers by fold."""
    return [name for name in allocation if name.startswith("fold_")]


def matrix(table: pd.DataFrame, along: Sequence[str]) -> pd.DataFrame:
    """Return sums of `value`: a row per update, a column per group of the columns `along`."""
    sums = table.groupby(["update", *along], sort=False)["value"].sum().reset_index()
    found = sums.pivot_table(index="update", columns=list(along), values="value", sort=False, fill_value=0.0)
    return found.sort_index()
