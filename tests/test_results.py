"""The results pages: tables match the per-run data, and verdicts come only from the verdict function."""

import importlib.util
import re
import shutil
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

RESULTS = Path(__file__).parents[1] / "docs/results"
PAGES = sorted(RESULTS.glob("*.md"))
VERDICT = re.compile(r"\b(holds|does not hold|under-powered|artefact of)\b")


@pytest.fixture(scope="module")
def rebuild() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rebuild", RESULTS / "rebuild.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(RESULTS)  # as for a script
        spec.loader.exec_module(module)
    return module


def test_numbers_lose_their_leading_nought_and_no_other(rebuild: ModuleType) -> None:
    assert [rebuild.short(one) for one in (80.003, 30.9, 0.5, -0.5)] == ["80.003", "30.900", ".500", "−.500"]
    assert rebuild.short(0.25, True) == "+.250"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables_are_what_the_committed_data_give(rebuild: ModuleType, page: Path) -> None:
    text = rebuild.whole(page)
    assert rebuild.rebuilt(text) == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short_and_names_its_other_tables(rebuild: ModuleType, page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(text.splitlines()) <= 150
    assert text.count("<!-- table: ") <= 4
    for file in rebuild.files(page)[1:]:
        for heading in re.findall(r"(?m)^## (.*)$", file.read_text("utf-8")):
            assert f"[{heading}]({page.stem}/tables.md#" in text


def test_another_number_gives_another_table(
    rebuild: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    data = tmp_path / "results/fusion/own.csv"
    first, *rest = re.split(r"(?m)^(?=\w+,\w+,conv2d,\d+,test/accuracy,)", data.read_text("utf-8"), maxsplit=1)
    line, newline, others = rest[0].partition("\n")
    data.write_text(first + line.rpartition(",")[0] + ",0.123" + newline + others, "utf-8")
    monkeypatch.setattr(rebuild, "HERE", tmp_path / "results")
    text = (RESULTS / "fusion.md").read_text("utf-8")
    assert rebuild.rebuilt(text) != text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_verdict_words_stand_in_rebuilt_tables_only(rebuild: ModuleType, page: Path) -> None:
    text = rebuild.whole(page)
    prose = rebuild.BLOCK.sub("", text)
    assert not VERDICT.findall(prose)
    if page.stem == "fusion":
        assert VERDICT.search(text)  # so the words above are those that the tables use


def test_chance_is_what_a_constant_prediction_scores_in_the_data(rebuild: ModuleType) -> None:
    """Runs without any correlation of prediction and class predict one class; its share is chance, or 1 − chance."""
    found = set()
    for name in ("fusion/own", "remedies/own", "pretrained/runs"):
        table = rebuild.runs(name)
        wide = table.pivot_table(index=["arm", "seed"], columns="metric", values="value")
        constant = wide[wide["test/matthews"] == 0]["test/accuracy"]
        (above,) = {abs(round(one, 3)) for one in rebuild.above_chance(name, [max(constant.max(), 1 - constant.min())])}
        assert above == 0
        found.add(name)
    assert len(found) == 3
    assert rebuild.above_chance("remedies/embedded", [0.7]) == pytest.approx([0.2])


def test_every_table_and_every_kept_run_is_shown(rebuild: ModuleType) -> None:
    text = "".join(map(rebuild.whole, PAGES))
    names = {found["name"] for found in rebuild.BLOCK.finditer(text)}
    assert {name for name in names if not name.endswith(rebuild.CHANCE)} == set(rebuild.TABLES)
    source = (RESULTS / "rebuild.py").read_text("utf-8")
    of_dynamics = ("rates", "data", "damage", "geometry", *rebuild.dynamics_tables.PARTS)
    source += "".join(f'"dynamics/{part}"' for part in of_dynamics) + '"hybrids/runs", "hybrids/texts"'
    for data in RESULTS.glob("*/*.csv"):
        assert f'"{data.relative_to(RESULTS).with_suffix("").as_posix()}"' in source


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_with_tests_counts_its_families_beside_chance(rebuild: ModuleType, page: Path) -> None:
    """A page that no longer can be rebuilt says in its text what chance gives."""
    text = rebuild.whole(page)
    if not re.search(r"p \(Holm\)|p by Holm", text):
        return
    if "<!-- table: " not in text:
        assert re.search(r"chance\s+alone\s+gives", text)
        return
    counted = text.partition(f"<!-- table: {page.stem}/chance -->")[2].partition("<!-- end -->")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in counted.strip().splitlines()[2:]]
    assert rows[-1][0] == "*all*"
    families, tests, below = (sum(int(row[at]) for row in rows[:-1]) for at in (1, 2, 3))
    assert rows[-1][1:] == [str(families), str(tests), str(below), f"{0.05 * families:.2f}"]
    shown = len(re.findall(r"(?m)^\|.*\*holds\*", text))
    assert below >= shown or "holds in" in text  # a verdict needs p and another interval


def test_a_table_of_many_families_counts_each(rebuild: ModuleType) -> None:
    """Of each pair and measure, spaces/apart shows a row; the tests of the other layers count as well."""
    rows = dict(re.findall(r"(?m)^\| (apart[a-z ]*) \| (\d+) \|", rebuild.whole(RESULTS / "spaces.md")))
    assert rows == {"apart": "18", "apart context": "18", "apart sts": "18"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_readme_marks_pages_without_data_and_verdicts(rebuild: ModuleType, page: Path) -> None:
    readme = (RESULTS.parents[1] / "README.md").read_text("utf-8")
    (entry,) = re.findall(rf"^- \[[^\]]*\]\(docs/results/{page.name}\):.*?(?=^- |^$)", readme, re.DOTALL | re.MULTILINE)
    text = rebuild.whole(page)
    tables = "".join(found[0] for found in rebuild.BLOCK.finditer(text))
    whole = (RESULTS / page.stem).is_dir() and bool(
        re.search(r"\*(holds|does not|under-powered|no verdict)\*:", tables)
    )
    assert ("(runs gone: no data, no verdict)" not in " ".join(entry.split())) == whole
    assert whole or "The runs are gone" in text


def test_a_claim_has_the_number_that_the_tables_have(rebuild: ModuleType) -> None:
    """SelfSim − AvgSim of the last layer, MT − MLM: +.278 in a claim and .277 by the table of its two numbers."""
    spaces = rebuild.spaces_tables
    for text in spaces.TEXTS:
        table = spaces.stored(text, "contextuality").query("layer == 2 and not twin")
        by_model = table[table["measure"] == "self_sim_corrected"].groupby("model")["value"].mean()
        for model in ("MT", "MLM"):
            cells = spaces.at(text, "self_sim_corrected", model, 2)
            assert cells.mean() == pytest.approx(by_model[model], abs=1e-12)
            assert cells.std() > 0


def test_parts_of_speech_are_kept_of_a_treebank_and_shown(
    rebuild: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve nouns of SelfSim .50 to .61 in MT, .1 less in the others; AvgSim is .2; layer 0 is not shown."""
    monkeypatch.syspath_prepend(str(RESULTS))
    from spaces_runs import kept

    spaces = pd.DataFrame({"space": ["MLM", "CLM", "MT"], "twin": False}).assign(model=lambda rows: rows["space"])
    spaces = spaces.merge(pd.DataFrame({"layer": [0, 1]}), "cross")
    words = spaces.merge(pd.DataFrame({"form": [*"abcdefghijkl"], "tag": "NOUN", "occurrences": 5}), "cross")
    words["self_sim"] = (
        0.5 + words["form"].map(ord).sub(97) / 100 - 0.1 * (words["model"] != "MT") - 3 * (1 - words["layer"])
    )
    tables = {
        "contextuality": spaces.assign(measure="avg_sim", value=0.2),
        "words": words.assign(frequency=-1),
        "tagged_words": words,
        "pairs": spaces,
        "similarity": spaces.assign(other_layer=0, without=None),
        "counts": spaces,
    }
    assert "by_part_of_speech" not in kept({**tables, "tagged_words": words[:0]})
    (tmp_path / "bank").mkdir()
    kept(tables)["by_part_of_speech"].to_parquet(tmp_path / "bank/by_part_of_speech.parquet")
    monkeypatch.setattr(rebuild.spaces_tables, "STORED", tmp_path)
    assert list(rebuild.spaces_tables.parts_of_speech("bank")) == [
        "| part of speech | MLM | CLM | MT |",
        "|---|---:|---:|---:|",
        "| NOUN (n = 12) | 0.255 ± 0.010 | 0.255 ± 0.010 | 0.355 ± 0.010 |",
    ]
