"""Read the loss change allocation of a study's runs, and sum it by groups."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from isoscope.base.errors import InputError
from isoscope.platform.outputs import Output
from isoscope.platform.results.paired_comparison import Arms
from isoscope.platform.statistics.paired import Paired, paired_t

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


def change(run: AllocatedRun, name: str) -> float:
    """Return the change of a set's loss over all intervals, in nats."""
    return float(_total(run, name)["change"])


def _total(run: AllocatedRun, name: str) -> Any:
    closure = run.closure
    return closure[closure["total"] & (closure["set"] == name)].iloc[0]


def matrix(table: pd.DataFrame, along: Sequence[str], value: str = "value") -> pd.DataFrame:
    """Return sums of `value`: a row per update, a column per group of the columns `along`."""
    sums = table.groupby(["update", *along], sort=False)[value].sum().reset_index()
    return sums.pivot_table(index="update", columns=list(along), values=value, sort=False, fill_value=0.0).sort_index()


def mean_over_seeds(values: Iterable[float], confidence: float) -> dict[str, Any]:
    """Return n, mean, low and high: the t interval, None below three seeds (SCIENCE: no interval from one or two)."""
    found: Paired = paired_t(list(values), confidence=confidence)
    low, high = found.interval or (None, None)
    return {"n": found.n, "mean": found.mean, "low": low, "high": high}


def floats(column: pd.Series) -> NDArray[np.float64]:
    """Return a column as numbers; None, which stands for NaN in JSON, is NaN."""
    return pd.to_numeric(column).to_numpy(dtype=float)


def ordered(names: Iterable[str], order: Sequence[str]) -> list[str]:
    """Return distinct names in a given order, unknown names last."""
    return sorted(set(names), key=lambda name: (order.index(name) if name in order else len(order), name))
