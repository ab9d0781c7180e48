"""Hidden-state results on the page: every figure with its caption, and data that HTML cannot misread."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile
from typing import Any

import pandas as pd
import pytest

from isoscope.base.errors import InputError
from isoscope.base.kind import kind
from isoscope.platform.figures.style import ARM_COLOURS
from isoscope.platform.report.sections import show_kind
from isoscope.platform.results.study_tables import StoredTables, Tables
from isoscope.platform.stages.result_tables import write_figures
from report_material import Material

Inside = Callable[..., Path]
HOSTILE = "</script><script>alert(1)</script> & 'so' \"on\""


def shown(folder: Path) -> dict[str, Any]:
    """Return what the page shows of a study of fusions in `folder`."""
    return show_kind("fusion", tables_in(folder), folder, key="a", chapter=1, command="analyse")


def tables_in(folder: Path) -> Tables:
    return Tables("fusion", StoredTables(folder / "tables"), [], [], confidence=0.95, power=0.8, margin=0.01)


def test_the_page_holds_explorer_phases_and_pictures(inside: Inside, material: Material) -> None:
    page = material.explored(inside(("geometry", "attention", "bars")))
    assert page.count('class="explorer"') == 1
    assert "Unstructured (8: 0–8), Maximum separation (18: 16–64)" in page
    for text in ("Geometry of [CLS] over training", "Entropy of each head", "The longest bars"):
        assert len(re.findall(rf"<figcaption><strong>Figure 1\.\d+\. {re.escape(text)}", page)) == 1
    assert page.count("<script>") == 1, "the page's and the explorer's"


def test_differences_stand_with_their_interval_or_a_dash(inside: Inside, material: Material) -> None:
    page = material.explored(inside())
    table = re.split("<summary[^>]*>Differences inside the models at the chosen epoch", page)[1].partition("</table>")[
        0
    ]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr")[2:]]
    assert cells == [
        [
            "Mean cosine, points of different sentences",
            "conv2d",
            "3",
            "additive",
            "0.5",
            "0.75",
            "+0.25",
            "[0.125, 0.375]",
            "1",
            "0.04",
            "0.2",
        ],
        ["Effective rank (dimensions)", "conv2d", "2", "additive", "0.5", "0.75", "+0.25", "–", "0", "–", "–"],
    ]


def test_tests_and_families_are_counted(inside: Inside, material: Material) -> None:
    page = material.explored(inside())
    counted = re.findall(
        r"(\d+) tests? in (\d+) famil.*?below 0.05 in (\d+) tests?, of (\d+) famil.*?at most ([\d.]+)", page
    )
    tests = [row for row in material.studies[0].comparison if row.p_holm is not None]
    below = [row for row in tests if (row.p_holm or 0.0) < 0.05]
    first, scores, own = counted
    families = [str(len({row.family for row in rows})) for rows in (tests, below)]
    assert scores == (str(len(tests)), families[0], str(len(below)), families[1], "0.25")
    assert first == own == ("1", "1", "1", "1", "0.05"), "on the first screen as in the section"


def test_the_data_is_the_same_and_no_sentence_ends_the_script(inside: Inside) -> None:
    folder = inside(sentences=[HOSTILE, "a", "b", "c"], classes=[HOSTILE, "positive"])
    (found,) = re.findall(r'<script type="application/json">(.*?)</script>', shown(folder)["extra"], re.S)
    assert not set("<>&") & set(found)
    assert json.loads(found) == json.loads((folder / "tables/explorer.json").read_text("utf-8"))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


@pytest.mark.parametrize(
    "file, damage, said",
    [
        *((f"tables/{name}", cut, "") for name in ("explorer.json", "phases.json", "attention.parquet")),
        *((name, cut, "") for name in ("tables/differences.parquet", "figures/heads.svg")),
        *((name, Path.unlink, name) for name in ("tables/differences.parquet", "figures/heads.svg")),
    ],
)
def test_damaged_and_missing_files_are_refused_in_a_line_that_says_what_to_do(
    inside: Inside, file: str, damage: Callable[[Path], None], said: str
) -> None:
    folder = inside()
    damage(folder / file)
    with pytest.raises(
        InputError, match=rf"^{folder}: not what isoscope analyse wrote \(.*{said}.*\); run: isoscope repro$"
    ):
        shown(folder)


def other_rows(file: Path) -> None:
    pd.read_parquet(file).iloc[:-1].to_parquet(file)


def renamed(file: Path) -> None:
    file.rename(file.with_stem("another"))


@pytest.mark.parametrize(
    "file, change, named, why",
    [
        ("tables/attention.parquet", other_rows, "attention", "not the figure of the tables beside it"),
        ("tables/attention.parquet", Path.unlink, "attention", "the tables beside it have no rows for it"),
        ("tables/bands.parquet", renamed, "training", "the tables beside it have no rows for it"),
        ("figures/heads.svg", lambda file: copyfile(file.with_stem("training"), file), "heads", "not the figure"),
        ("figures/heads.svg", lambda file: file.write_text("<svg/>"), "heads", "not the figure"),
    ],
)
def test_a_figure_of_other_tables_is_refused(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, file: str, change: Callable[[Path], object], named: str, why: str
) -> None:
    folder = inside()
    monkeypatch.setattr("isoscope.platform.stages.result_tables.read_tables", tables_in)
    assert write_figures(folder, "fusion", folder / "tables", "svg")
    change(folder / file)
    with pytest.raises(InputError, match=rf"figures/{named}.svg: {why}.*; run: isoscope repro$"):
        shown(folder)
    with pytest.raises(InputError, match=rf"figures/{named}.svg: {why}.*; run: isoscope repro$"):
        write_figures(folder, "fusion", folder, "svg")
    assert not [*folder.glob("*.svg")]


def test_the_explorer_has_the_colours_of_the_figures() -> None:
    (colours,) = re.findall(r"COLOURS = (\[[^\]]+\])", kind("fusion").script or "")
    assert tuple(json.loads(colours)) == ARM_COLOURS
