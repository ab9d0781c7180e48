"""The results pages: tables match the per-run data, and verdicts come only from the verdict function."""

import csv
import importlib
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from isoscope.base import kind as kinds

RESULTS = Path(__file__).parents[1] / "docs/results"
README = RESULTS.parents[1] / "README.md"
PAGES = sorted(RESULTS.glob("*.md"))
VERDICT = re.compile(r"\b(holds|does not hold|under-powered|artefact of)\b")


@pytest.fixture(scope="module", autouse=True)
def rebuild() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(RESULTS))  # as for a script
        yield importlib.import_module("rebuild")


@cache
def made(page: Path) -> dict[Path, str]:
    """Return the rebuilt files of a page, as text."""
    return dict(importlib.import_module("rebuild").rebuilt(page))


def texts_of(page: Path) -> str:
    """Return the text of a page and of the page about its other tables."""
    other = page.with_suffix("") / "tables.md"
    return page.read_text("utf-8") + (other.read_text("utf-8") if other.exists() else "")


def files_of(page: Path) -> list[Path]:
    return sorted((page.with_suffix("") / "tables").glob("*.csv"))


def blocks(rebuild: ModuleType, page: Path) -> dict[str, str]:
    return {found["name"]: found[0] for found in rebuild.BLOCK.finditer(page.read_text("utf-8"))}


def test_numbers_lose_their_leading_nought_and_no_other(rebuild: ModuleType) -> None:
    short = importlib.import_module("written").short
    assert [short(one) for one in (80.003, 30.9, 0.5, -0.5)] == ["80.003", "30.900", ".500", "−.500"]
    assert short(0.25, True) == "+.250"


def test_numbers_are_aligned_right_and_a_file_has_no_marks(rebuild: ModuleType) -> None:
    table = importlib.import_module("written").Table(("arm", "p"), [("`a`, *b*", ".01"), ("", "–")])
    assert table.markdown() == "| arm | p |\n|---|---:|\n| `a`, *b* | .01 |\n| | – |"
    assert table.csv() == 'arm,p\n"a, b",.01\n,–\n'


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_tables_are_what_the_committed_data_give(rebuild: ModuleType, page: Path) -> None:
    for file, text in made(page).items():
        assert file.read_text("utf-8") == text, file


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_table_that_is_not_rebuilt_has_no_verdict_and_no_test(rebuild: ModuleType, page: Path) -> None:
    for file in {*files_of(page)} - made(page).keys():
        text = file.read_text("utf-8")
        assert not VERDICT.search(text), file
        assert not re.search(r"p \(Holm\)|\(p [\d.]+", text), file


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short_and_names_its_other_tables(page: Path) -> None:
    text, other = page.read_text("utf-8"), page.with_suffix("") / "tables.md"
    assert len(text.splitlines()) <= 150
    assert len(re.findall(r"(?m)^\|[-:|]+\|$", text)) <= 4  # also of tables by hand
    assert text.count("![") <= 2
    for file in [file for file in made(page) if file.suffix == ".svg"]:
        assert f"]({page.stem}/{file.name})" in text or f"]({file.name})" in other.read_text("utf-8")
    for file in files_of(page):
        assert f"[`{file.name}`](tables/{file.name})" in other.read_text("utf-8")
    for heading in re.findall(r"(?m)^## (.*)$", other.read_text("utf-8") if other.exists() else ""):
        assert f"[{heading}]({page.stem}/tables.md#" in text


def test_another_number_gives_another_table(
    rebuild: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    page, data = tmp_path / "results/fusion.md", tmp_path / "results/fusion/own.csv"
    first, *rest = re.split(r"(?m)^(?=\w+,\w+,conv2d,\d+,test/accuracy,)", data.read_text("utf-8"), maxsplit=1)
    line, newline, others = rest[0].partition("\n")
    data.write_text(first + line.rpartition(",")[0] + ",0.123" + newline + others, "utf-8")
    monkeypatch.setattr(importlib.import_module("per_run"), "HERE", tmp_path / "results")
    changed = [file for file, text in rebuild.rebuilt(page).items() if file.read_text("utf-8") != text]
    assert page in changed
    assert tmp_path / "results/fusion/tables/own.csv" in changed


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_verdict_words_stand_in_rebuilt_tables_only(rebuild: ModuleType, page: Path) -> None:
    assert not VERDICT.findall(rebuild.BLOCK.sub("", texts_of(page)))
    if page.stem == "fusion":
        assert VERDICT.search(texts_of(page))  # so the words above are those that the tables use


def test_chance_is_what_a_constant_prediction_scores_in_the_data(rebuild: ModuleType) -> None:
    """Runs without any correlation of prediction and class predict one class; its share is chance, or 1 − chance."""
    tables, stored = rebuild.fusion_tables, importlib.import_module("per_run").stored
    for name in ("fusion/own", "remedies/own", "pretrained/runs"):
        wide = stored(f"{name}.csv").pivot_table(index=["arm", "seed"], columns="metric", values="value")
        constant = wide[wide["test/matthews"] == 0]["test/accuracy"]
        (above,) = {abs(round(one, 3)) for one in tables.above_chance(name, [max(constant.max(), 1 - constant.min())])}
        assert above == 0
    assert tables.above_chance("remedies/embedded", [0.7]) == pytest.approx([0.2])


def test_every_kept_run_is_read_by_a_table_or_named() -> None:
    source = "".join(file.read_text("utf-8") for file in RESULTS.glob("*.py")) + "".join(map(texts_of, PAGES))
    for data in RESULTS.glob("*/*.csv"):
        name = data.relative_to(RESULTS).as_posix()
        assert re.search(rf"[\"(]({re.escape(name)}|{re.escape(name[:-4])}|{re.escape(data.name)})[\")]", source), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_with_tests_counts_its_families_beside_chance(rebuild: ModuleType, page: Path) -> None:
    """A page that no longer can be rebuilt says in its text what chance gives."""
    tables = blocks(rebuild, page)
    text = "".join([texts_of(page), *(file.read_text("utf-8") for file in files_of(page))])
    if not re.search(r"p \(Holm\)|p by Holm", text):
        return
    if not tables:
        assert re.search(r"chance\s+alone\s+gives", text)
        return
    if not (f"{page.stem}/chance" in tables or (page.with_suffix("") / "tables/chance.csv").exists()):
        assert "no interval below 3" in text, "its differences have no p"
        return
    rows = counted(rebuild, page)
    assert rows[-1][0] == "all"
    families, tests, below = (sum(int(row[at]) for row in rows[:-1]) for at in (1, 2, 3))
    assert rows[-1][1:] == [str(families), str(tests), str(below), f"{0.05 * families:.2f}"]
    shown = len(re.findall(r"(?m)^\|.*\*holds\*", text)) + len(re.findall(r",\"?(?:the opposite )?holds:", text))
    assert below >= shown or "holds in" in text  # a verdict needs p and another interval


def counted(rebuild: ModuleType, page: Path) -> list[list[str]]:
    """Return the rows of a page's table of families."""
    if block := blocks(rebuild, page).get(f"{page.stem}/chance"):
        return [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in block.splitlines()[3:-1]]
    text = (page.with_suffix("") / "tables/chance.csv").read_text("utf-8")
    return list(csv.reader(text.splitlines()))[1:]


def test_a_table_of_many_families_counts_each(rebuild: ModuleType) -> None:
    """Of each pair and measure, spaces/apart shows a row; the tests of the other layers count as well."""
    rows = {row[0]: row[1] for row in counted(rebuild, RESULTS / "spaces.md") if row[0].startswith("apart")}
    assert rows == {"apart": "18", "apart context": "18", "apart sts": "18"}


@pytest.mark.parametrize("page", [one for one in PAGES if one.with_suffix("").is_dir()], ids=lambda page: page.stem)
def test_the_readme_marks_pages_without_data_and_verdicts(rebuild: ModuleType, page: Path) -> None:
    text = " ".join(README.read_text("utf-8").split())
    marks = set(re.findall(rf"\(docs/results/{page.name}\)( \(runs gone\))?", text))
    tables = "".join(blocks(rebuild, page).values())
    whole = bool(re.search(r"\*(holds|does not|under-powered|no verdict)\*:", tables))
    assert marks == ({""} if whole else {" (runs gone)"})
    assert whole or "The runs are gone" in texts_of(page)


def test_a_claim_has_the_number_that_the_tables_have(rebuild: ModuleType) -> None:
    """SelfSim − AvgSim of the last layer, MT − MLM: +.278 in a claim and .277 by the table of its two numbers."""
    spaces = rebuild.spaces_tables
    for text in spaces.TEXTS:
        table = spaces.stored(f"spaces/{text}/contextuality.parquet").query("layer == 2 and not twin")
        by_model = table[table["measure"] == "self_sim_corrected"].groupby("model")["value"].mean()
        for model in ("MT", "MLM"):
            cells = spaces.at(text, "self_sim_corrected", model, 2)
            assert cells.mean() == pytest.approx(by_model[model], abs=1e-12)
            assert cells.std() > 0


def test_each_published_figure_that_a_view_makes_is_listed() -> None:
    page = (RESULTS / "published.md").read_text("utf-8")
    made = {view.name for name in kinds.names() for view in kinds.kind(name).views if view.remakes}
    assert {"anisotropy", "cosines", "hybrid_scores"} <= made
    assert [name for name in sorted(made) if f"`{name}`" not in page] == []
