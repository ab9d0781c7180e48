"""The search on the page: its best trials, how to find their runs, what is still missing; no search, no section."""

import gzip
import io
import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from optuna.study import Study
from optuna.trial import TrialState, create_trial

from isoscope.base.atomic_files import seal, sealed_json
from isoscope.base.errors import InputError
from isoscope.platform.config.declared import title
from isoscope.platform.report.search_section import MOST, read_search
from report_material import Material
from search_material import NAMES, new, searched, write_search

HOSTILE = "</h2><script>alert(1)</script> & 'so' \"on\""


@pytest.fixture(scope="module")
def one() -> Study:
    return searched(40)


@pytest.fixture(scope="module")
def folder(one: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_search(tmp_path_factory.mktemp("search"), one)


def section(page: str) -> str:
    """The search's part of the page."""
    return page.partition('<section aria-labelledby="search" class="part">')[2].partition("</section>")[0]


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<svg.*?</svg>", "", html, flags=re.S))).split())


def cells(html: str, heading: str) -> list[list[str]]:
    """Rows of the table whose caption begins so."""
    table = html.partition(f"><span>{heading}")[2].partition("<tbody>")[2].partition("</table>")[0]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", table, flags=re.S)
    return [[words(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.S)] for row in rows]


def test_the_page_says_what_was_searched_and_that_the_best_is_optimistic(folder: Path, material: Material) -> None:
    page = material.page(search=folder)
    assert page.count('href="#search"') == 2, "in the side bar, and on the first screen"
    assert page.count('id="search"') == 1
    text = words(section(page))
    assert "40 trials: 30 complete, 7 pruned, 3 failed; objective: Accuracy, validation (maximise)" in text
    assert "constraint: Accuracy, validation ≥ 0.7." in text
    assert "Pruning stopped 7 trials early: 134 of 148 steps were run, 9 % were saved." in text
    facts = json.loads((folder / "study.json").read_text("utf-8"))
    table = pq.read_table(folder / "importances.parquet").to_pylist()
    (first, *_), rows = table, cells(section(page), "Importances")
    shown = [first["parameter"], first["architecture"], title(NAMES[0]), f"{first['importance']:.3f}"]
    assert rows[0] == [*shown, f"[{first['low']:.3f}, {first['high']:.3f}]", str(first["trials"])]
    assert len(rows) == len(table)
    assert f"Trial {facts['best']} is the best trial, and its score is optimistic" in text
    assert "train it with new seeds and compare it with the default" in text
    for name, value in facts["best_params"].items():
        assert f"{name} {f'{value:.3g}' if isinstance(value, float) else value}" in text
    overlay = (folder / "best.yaml").read_text("utf-8")
    assert unescape(section(page).partition("<pre><code>")[2].partition("</code>")[0]) == overlay


def test_the_best_trials_that_keep_to_the_constraints_come_first(folder: Path, one: Study, material: Material) -> None:
    rows = cells(section(material.page(search=folder)), "The best trials")
    allowed = [t for t in one.trials if t.state == TrialState.COMPLETE and t.values[0] >= 0.7]
    want = sorted(allowed, key=lambda t: -t.values[0])[:MOST]
    assert len(allowed) > MOST == len(rows)
    assert [row[0] for row in rows] == [f"{want[0].number} (best)", *(str(t.number) for t in want[1:])]
    assert [row[1] for row in rows] == [f"{t.values[0]:.4g}" for t in want]
    assert all(f"fusion {t.params['fusion']}" in row[3] for row, t in zip(rows, want, strict=True))
    assert [row[4] for row in rows] == [f"tags.`isoscope.digest` LIKE '{t.number:04x}00000000%'" for t in want]
    assert all(("kernel_size" in row[3]) == (t.params["fusion"] == "conv2d") for row, t in zip(rows, want, strict=True))


def test_a_trials_runs_are_links_into_the_experiment_that_holds_them(folder: Path) -> None:
    def links(experiments: dict[str, str], studies: dict[str, str]) -> list[str]:
        address = "http://127.0.0.1:5000"
        found = read_search(folder, tracking_uri=address, experiments=experiments, homes=studies, chapter=1)
        return [run["link"] for trial in found["trials"] for run in trial["runs"]]

    both = {"search": "7", "fusion": "4"}
    plain = links(both, {})
    assert len(plain) == MOST
    assert all("/#/experiments/7/runs?" in one for one in plain)
    chosen = plain[0].rpartition("%27")[0].rpartition("%27")[2]
    published = [one.replace("/experiments/7/", "/experiments/4/") if chosen in one else one for one in plain]
    assert links(both, {chosen: "fusion"}) == published != plain
    assert {*links({"fusion": "4"}, {})} == {None}


def test_each_figure_has_the_numbers_that_the_search_wrote(folder: Path) -> None:
    found = read_search(folder, tracking_uri=None, experiments={}, homes={}, chapter=1)
    given = {one.key.removeprefix("search-"): one.tables for one in found["drawings"]}
    names = {"history": "trials", "importances": "importances", "slice": "trials"}
    names |= {"intermediate": "reported", "pruning": "reported"}
    assert {figure: [*tables] for figure, tables in given.items()} == {figure: [name] for figure, name in names.items()}
    for figure, column in (("history", "number"), ("importances", "importance"), ("pruning", "value")):
        rows = pd.read_csv(io.BytesIO(gzip.decompress(given[figure][names[figure]])))[column]
        stored = pd.read_parquet(folder / f"{names[figure]}.parquet")[column]
        assert rows.tolist() == pytest.approx(stored.tolist(), abs=1e-5, nan_ok=True)


def test_several_objectives_show_the_front(tmp_path: Path, material: Material) -> None:
    study = searched(40, 2)
    html = section(material.page(search=write_search(tmp_path, study)))
    facts = json.loads((tmp_path / "study.json").read_text("utf-8"))
    rows = cells(html, "Trials on the Pareto front")
    numbers = [int(row[0].split()[0]) for row in rows]
    assert sorted(numbers) == facts["front"]
    assert [row[0] for row in rows if "suggested" in row[0]] == [f"{facts['knee']} (suggested)"]
    for number, row in zip(numbers, rows, strict=True):
        values = [f"{value:.4g}" for value in study.trials[number].values]
        assert row[1:3] == values
        assert f"{title(NAMES[0])} {values[0]}; {title(NAMES[1])} {values[1]}; " in unescape(html), "told by the figure"
    values = [study.trials[number].values[0] for number in numbers]
    assert values == sorted(values, reverse=True)
    assert f"Trial {facts['knee']} is the suggested trial of the Pareto front" in words(html)
    assert "Pruning" not in words(html.partition("<figure>")[0])


@pytest.mark.parametrize(
    "values, said, marked",
    [
        ([0.9, 0.5], "The front has 2 trials, and none stands out", ["1", "0"]),
        ([0.9, 0.3], "Trial 1 is the only trial of the Pareto front", ["1 (suggested)"]),
    ],
)
def test_a_small_front_is_no_compromise(
    tmp_path: Path, material: Material, values: list[float], said: str, marked: list[str]
) -> None:
    study = new(2, axis=None)
    for own in ([0.8, 0.4], values, [0.7, 0.6]):
        study.add_trial(create_trial(values=own, constraints={"validation/accuracy": 0.0}))
    html = section(material.page(search=write_search(tmp_path, study, drawn=False)))
    assert said in words(html)
    assert [row[0] for row in cells(html, "Trials on the Pareto front")] == marked


def test_without_a_search_or_trials_there_is_no_section(tmp_path: Path, material: Material) -> None:
    bare = material.page()
    assert "#search" not in bare
    assert material.page(search=tmp_path / "absent") == bare
    (tmp_path / "empty").mkdir()
    assert material.page(search=write_search(tmp_path / "empty", new())) == bare


def test_a_search_that_found_nothing_allowed_says_so(tmp_path: Path, material: Material) -> None:
    study = new()
    study.add_trial(create_trial(value=0.9, constraints={"a": 1.0}))
    study.add_trial(create_trial(state=TrialState.FAIL))
    html = section(material.page(search=write_search(tmp_path, study)))
    assert "No complete trial meets the constraints" in html
    assert "<pre>" not in html
    assert cells(html, "The best trials") == []


def test_hostile_names_are_text(tmp_path: Path, one: Study, material: Material) -> None:
    params, limits = {HOSTILE: HOSTILE}, {HOSTILE: HOSTILE}
    write_search(tmp_path, one, drawn=False, name=HOSTILE, best_params=params, constraints=limits, digest=HOSTILE)
    (tmp_path / "best.yaml").write_text(HOSTILE, "utf-8")
    seal(tmp_path)
    page = material.page(search=tmp_path)
    assert page.count("<script>") == material.page().count("<script>")
    assert HOSTILE in unescape(page)


def reversed_column(column: str) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        table = pq.read_table(file)
        turned = table[column].take([*range(len(table))][::-1])
        pq.write_table(table.set_column(table.column_names.index(column), column, turned), file)

    return damage


def changed_text(old: str, new: str) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        text = file.read_text("utf-8")
        assert old in text
        file.write_text(text.replace(old, new, 1), "utf-8")

    return damage


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


@pytest.mark.parametrize(
    "file, damage",
    [
        ("trials.parquet", reversed_column(f"objective/{NAMES[0]}")),
        ("reported.parquet", reversed_column("value")),
        ("importances.parquet", reversed_column("importance")),
        ("best.yaml", changed_text("0", "1")),
        ("study.json", changed_text('"COMPLETE": ', '"COMPLETE": 1')),
        ("figures/slice.svg", changed_text("<path", "<ellipse")),
        ("best.yaml", Path.unlink),
        *((file, cut) for file in ("study.json", "trials.parquet", "reported.parquet", "importances.parquet")),
        ("figures/history.svg", cut),
    ],
)
def test_altered_and_cut_files_are_refused_in_a_line_that_says_what_to_do(
    tmp_path: Path, one: Study, file: str, damage: Callable[[Path], None]
) -> None:
    write_search(tmp_path, one, drawn=file.endswith(".svg"))
    damage(tmp_path / file)
    said = rf"{file} (has changed since it was written|is missing)|.* line \d+ column .*"
    with pytest.raises(
        InputError, match=rf"^{tmp_path}: not what isoscope search wrote \({said}\); run: isoscope repro$"
    ):
        read_search(tmp_path, tracking_uri=None, experiments={}, homes={}, chapter=1)


@pytest.mark.parametrize(
    "text",
    [
        sealed_json({"search": "search", "trial": 3, "rows": []}).replace("3", "4", 1),
        sealed_json({"search": "search", "trial": 3, "rows": []})[:-20],
        json.dumps({"search": "search", "trial": 3, "seeds": [1], "rows": [], "believed": {}}),
        sealed_json({"search": "search", "trial": 3}),
        "[1, 2]",
        "",
    ],
    ids=["altered", "cut", "unsealed", "lacking", "list", "empty"],
)
def test_an_altered_confirmation_is_refused_by_its_file(tmp_path: Path, one: Study, text: str) -> None:
    (tmp_path / "search").mkdir()
    folder = write_search(tmp_path / "search", one, drawn=False)
    (tmp_path / "search-confirmed.json").write_text(text, "utf-8")
    with pytest.raises(
        InputError, match=r"search-confirmed.json: not what isoscope search confirm wrote .*run it again"
    ):
        read_search(folder, tracking_uri=None, experiments={}, homes={}, chapter=1)


@pytest.mark.parametrize("fact", ["counts", "objectives", "digest", "saved", "best"])
def test_a_missing_fact_is_refused_by_name(tmp_path: Path, one: Study, fact: str) -> None:
    write_search(tmp_path, one, drawn=False)
    facts = json.loads((tmp_path / "study.json").read_text("utf-8"))
    (tmp_path / "study.json").write_text(json.dumps({k: v for k, v in facts.items() if k != fact}), "utf-8")
    seal(tmp_path)
    with pytest.raises(InputError, match=rf"no '{fact}'"):
        read_search(tmp_path, tracking_uri=None, experiments={}, homes={}, chapter=1)
