"""Hash every column of every table of a project, to tell whether a change of code changed a number.

`python tests/golden/columns.py PROJECT > before.json`, and later
`python tests/golden/columns.py PROJECT --against before.json` (exit code 1 where a column differs or is gone).
Hashes are of exact values: compare runs of one machine only.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import pandas as pd

POINTS = ["name", "value", "step"]
FOLDERS = {"data/measures": "measures", "data/processed": "processed", "models": "models", "reports": "reports"}


def columns(project: Path) -> dict[str, str]:
    """`<folder>/<table>:<column>` → sha256 of the column's values, in the order of the rows."""
    found = {}
    for folder, short in FOLDERS.items():
        root = project / folder
        for path in sorted(root.rglob("*")):
            if (table := read(path)) is None:
                continue
            name = f"{short}/{path.relative_to(root).with_suffix('').as_posix()}"
            found |= {f"{name}:{column}": _hashed(values) for column, values in table.items()}
    return found


def read(path: Path) -> pd.DataFrame | None:
    """The table in a file of measures, predictions, points or curves; None where it is no table."""
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix == ".csv":
        return pd.read_csv(path, keep_default_na=False, dtype=str)
    if path.name == "metrics.jsonl":
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        return pd.DataFrame(
            [{"name": one["name"], "value": float(one["value"]).hex(), "step": one["step"]} for one in lines]
        )
    return None


def _hashed(values: pd.Series) -> str:
    texts = (value.hex() if isinstance(value, float) else repr(_plain(value)) for value in values.tolist())
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else value


def moved(name: str, folders: dict[str, str]) -> str:
    """A column's name where its folder is called otherwise now."""
    for old, new in folders.items():
        if name.startswith(old):
            return new + name[len(old) :]
    return name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", type=Path)
    parser.add_argument("--against", type=Path, metavar="FILE", help="hashes written before")
    parser.add_argument("--moved", nargs=2, action="append", default=[], metavar=("OLD", "NEW"), help="renamed folder")
    asked = parser.parse_args()
    found = columns(asked.project)
    if asked.against is None:
        print(json.dumps(found, indent=0, sort_keys=True))
        return
    folders = dict(asked.moved)
    before = {moved(name, folders): value for name, value in json.loads(asked.against.read_text("utf-8")).items()}
    gone = sorted(before.keys() - found.keys())
    other = sorted(name for name in before.keys() & found.keys() if before[name] != found[name])
    for word, names in (("gone", gone), ("differs", other)):
        for name in names:
            print(f"{word}: {name}")
    print(f"{len(before)} columns: {len(before) - len(gone) - len(other)} equal, {len(other)} differ, {len(gone)} gone")
    print(f"{len(found.keys() - before.keys())} are new")
    sys.exit(bool(gone or other))


if __name__ == "__main__":
    main()
