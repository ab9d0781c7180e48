"""Store the per-run data of a results page: `python docs/results/collect.py fusion/own models/own/*/seed-*`.

Run it at the root of the project that trained the runs. `--to` names the checkout whose docs/results is written.
`rebuild.py` makes the page's tables from the two files that it writes:

- `<name>.csv`: digest, commit, arm, seed, metric, epoch, step, value (earlier files have no step); every metric of
  validation and test, and the task's baselines, which have no seed.
- `<name>.parquet`: a row per test item, a column `<arm>/<seed>`: whether the prediction was correct.

`--add` keeps the other runs in these files.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.platform.outputs import CONFIG, Output, Trained, read_output
from isoscope.platform.runs.record import read
from isoscope.platform.stages import result_tables
from isoscope.platform.stages.result_tables import COLUMNS


def told(main: Callable[[], None]) -> None:
    """Run a script; what is wrong with its input ends it with one line and exit code 2."""
    try:
        main()
    except InputError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


def output_of(folder: Path) -> Output:
    """Return a finished run: published, or below .isoscope/runs, where its record has what config.yaml would."""
    if (folder / CONFIG).is_file():
        return read_output(folder)
    digest = folder.absolute().parent.name
    record = Path(".isoscope/records", f"{digest}.jsonl")
    run = read(record).run if record.is_file() else None
    if run is None or run.arm is None or run.seed is None:
        raise InputError(f"{folder}: neither config.yaml nor a record of training; give folders of finished runs")
    trained = Trained(run.study, run.arm, run.seed, run.task, digest, code="", inputs={}, plugins={})
    params = nested(run.params)
    return Output(folder, trained, (), params["objective"]["kind"], params)


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tree of a record's parameters, whose names are paths joined by dots."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *above, last = name.split(".")
        node = tree
        for part in above:
            node = node.setdefault(part, {})
        node[last] = value
    return tree


def baselines(task: str) -> list[tuple[object, ...]]:
    """Return a row per baseline and metric on the task's test split."""
    manifest = json.loads((paths.processed(task) / "manifest.json").read_text("utf-8"))
    return [
        ("", "", name, "", f"test/{metric}", "", "", repr(splits["test"][metric]))
        for name, splits in manifest["baselines"].items()
        for metric in ("accuracy", "f1", "matthews")
    ]


def commit_of(digest: str) -> str:
    """Return the commit in a run's record."""
    return result_tables.commit_of(Path(".isoscope/records"), digest)


def added(table: pd.DataFrame, items: pd.DataFrame, target: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both tables with the other runs in the files of `target`, ordered by arm and seed."""
    old = pd.read_csv(target.with_suffix(".csv"), dtype=str, keep_default_na=False)
    ours = set(zip(table["arm"], table["seed"], strict=True))
    kept = [pair not in ours for pair in zip(old["arm"], old["seed"], strict=True)]
    both = pd.concat([old[kept], table], ignore_index=True)
    both = both.assign(baseline=both["seed"] == "", number=pd.to_numeric(both["seed"]))
    both = both.sort_values(["baseline", "arm", "number"], kind="stable")[list(COLUMNS)].fillna("")
    before = pd.read_parquet(target.with_suffix(".parquet")).drop(columns=items.columns, errors="ignore")
    columns = pd.concat([before, items], axis="columns")
    names = sorted(columns, key=lambda name: (name.split("/")[0], int(name.split("/")[1])))
    return both, columns[names]


def collect(name: str, runs: list[Path], *, add: bool = False, to: Path = Path()) -> None:
    """Write both files."""
    outputs = sorted(map(output_of, runs), key=lambda one: (one.run.arm, one.run.seed))
    target = to / "docs/results" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    found = [row for task in {output.run.task: None for output in outputs} for row in baselines(task)]
    below = pd.DataFrame(found, columns=COLUMNS, dtype=str)
    table = pd.concat([result_tables.of_runs(outputs, Path(".isoscope/records")), below], ignore_index=True)
    items = result_tables.correct_items(outputs)
    if add:
        table, items = added(table, items, target)
    table.to_csv(target.with_suffix(".csv"), index=False, lineterminator="\n")
    items.to_parquet(target.with_suffix(".parquet"), compression="zstd", index=False)
    print(f"{target}.csv, {target}.parquet: {len(outputs)} runs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="page/training, such as fusion/own")
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs")
    parser.add_argument("--add", action="store_true", help="keep the runs in the files that are not given here")
    parser.add_argument("--to", type=Path, default=Path(), help="checkout to write to (default: the current folder)")
    arguments = parser.parse_args()
    collect(arguments.name, arguments.runs, add=arguments.add, to=arguments.to)


if __name__ == "__main__":
    main()
