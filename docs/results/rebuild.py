"""Rebuild the tables and pictures of the results pages: `python docs/results/rebuild.py`; `--check` lists what differs.

`*_tables.py` declare the tables: `<page>/<table>` → a function. A page shows a table between `<!-- table: NAME -->` and
`<!-- end -->`; the others are files, `<page>/tables/<table>.csv`. Numbers are from the per-run data of the page,
verdicts from `isoscope.platform.statistics.paired.judge`. The table `<page>/chance` counts the families of tests of all
tables of a page. `pictures.py` declares the pictures, `<page>/<picture>.svg`. A file without a declared table, and thus
without a test, is as commit `640d9ee` made it.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import dynamics_tables
import fusion_tables
import hybrids_tables
import isotropy_tables
import numpy as np
import scratch_tables
import search_tables
import spaces_tables
import stsb_tables
from claims import claims
from pictures import drawn
from written import CONFIDENCE, Table

from isoscope.platform.figures.style import to_svg
from isoscope.platform.statistics.paired import by_chance, families

HERE = Path(__file__).parent
README = HERE.parents[1] / "README.md"
BLOCK = re.compile(r"(<!-- table: (?P<name>\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
TABLES = (
    fusion_tables.TABLES
    | dynamics_tables.TABLES
    | spaces_tables.TABLES
    | hybrids_tables.TABLES
    | stsb_tables.TABLES
    | search_tables.TABLES
    | isotropy_tables.TABLES
    | scratch_tables.TABLES
)
TABLES["README/claims"] = partial(claims, TABLES)


def rebuilt(page: Path) -> dict[Path, str]:
    """Return the text of a page with its tables rebuilt, of each file of its other tables, and of its pictures."""
    made: dict[str, Table] = {}
    tested: dict[str, list[Sequence[float]]] = {}
    for name in [name for name in TABLES if name.startswith(f"{page.stem}/")]:
        with families() as tested[name]:
            made[name] = TABLES[name]()
    if made and page.parent == HERE:
        made |= {f"{page.stem}/chance": found for found in chance(tested)}
    text = page.read_text("utf-8")
    shown = {found["name"] for found in BLOCK.finditer(text)}
    found = {page: BLOCK.sub(lambda own: f"{own[1]}{made[own['name']].markdown()}\n{own[3]}", text)}
    folder = page.with_suffix("") / "tables"
    pictures = {HERE / f"{name}.svg": to_svg(figure) for name, figure in drawn(page.stem)}
    beside = {name.partition("/")[2]: table for name, table in made.items() if name not in shown}
    return found | pictures | {folder / f"{name}.csv": table.csv() for name, table in beside.items()}


def chance(tested: Mapping[str, Sequence[Sequence[float]]]) -> Iterator[Table]:
    """Yield the families and tests of each table of a page, the findings, and how many chance alone would give.

    `tested`: table → corrected p of each family. A family without a test does not count; no table of no test.
    """
    rows = []
    for name, found in tested.items():
        tests = [own for family in found if (own := [p for p in family if not np.isnan(p)])]
        if tests:
            below = sum(p < 1 - CONFIDENCE for family in tests for p in family)
            rows.append((name.partition("/")[2].replace("_", " "), len(tests), sum(map(len, tests)), below))
    if not rows:
        return
    rows.append(("*all*", *(sum(row[place] for row in rows) for place in (1, 2, 3))))
    counted = [(*row, f"{by_chance(row[1], confidence=CONFIDENCE):.2f}") for row in rows]
    yield Table(("table", "families", "tests", "p (Holm) below .05", "by chance alone"), counted)


def main() -> None:
    """Write what differs, or list it."""
    parser = argparse.ArgumentParser(description="Make the tables of the pages again from the per-run data.")
    parser.add_argument("--check", action="store_true", help="write nothing: list the files that are not of their data")
    check = parser.parse_args().check
    for page in (README, *sorted(HERE.glob("*.md"))):
        for file, text in rebuilt(page).items():
            if not file.exists() or file.read_text("utf-8") != text:
                if not check:
                    file.parent.mkdir(exist_ok=True)
                    file.write_text(text, "utf-8")
                print(file.relative_to(README.parent) if check else f"{file.relative_to(README.parent)}: rebuilt")


if __name__ == "__main__":
    main()
