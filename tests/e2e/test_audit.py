"""`isoscope audit` finds every kind of damage to a file at rest, every altered number, and nothing else."""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from isoscope.base.errors import RunError
from isoscope.base.parquet import write_parquet
from isoscope.platform.stages.audit import _results
from page_blocks import Page
from pipeline_project import Finished, Project
from search_material import searched, write_search
from struck import KINDS

pytestmark = pytest.mark.slow

RUN, STATES = "models/fusion/conv2d/seed-0", "data/hidden_states/fusion/conv2d/seed-0"
PART = "reports/parts/fusion"
AT_REST = {
    "weights": f"{RUN}/checkpoints/*/model.safetensors",
    "parameters": f"{RUN}/config.yaml",
    "metrics": f"{RUN}/metrics.jsonl",
    "predictions": f"{RUN}/predictions.parquet",
    "metrics of the objective": f"{RUN}/objective.json",
    "prepared data": "data/processed/tiny/test.parquet",
    "tokenizer": "data/processed/tiny/tokenizer/tokenizer.json",
    "hidden states": f"{STATES}/states/step-8.safetensors",
    "measures": "data/measures/fusion/conv2d/seed-0/geometry.parquet",
    "record": ".isoscope/records/{digest}.jsonl",
    "manifest of a stored output": ".isoscope/runs/{digest}/output/manifest.json",
    "search": "reports/search/trials.parquet",
}
"""Files that runs wrote: kind → pattern of its path."""
MADE = {
    "table": f"{PART}/tables/seeds.parquet",
    "comparison": f"{PART}/comparison.json",
    "parameters of the analysis": f"{PART}/config.yaml",
    "scores": f"{PART}/metrics.json",
    "curves": f"{PART}/curves.csv",
    "figure": f"{PART}/figures/curves.svg",
    "page": "reports/index.html",
}
"""Files that were made from runs."""


@pytest.fixture(scope="module")
def project(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a study; a test puts back what it changes."""
    return finished.project.copy(tmp_path_factory.mktemp("audited") / "project", without=("docs",), mirrored=False)


@pytest.fixture(scope="module")
def explored_project(explored: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a study, hidden states, measures and a search; a test puts back what it changes."""
    folder = tmp_path_factory.mktemp("audited") / "project"
    project = explored.project.copy(folder, without=("docs",), mirrored=False)
    shutil.rmtree(folder / "reports/search", ignore_errors=True)
    write_search(folder / "reports/search", searched())
    project.isoscope("report")
    project.dvc("commit", "--force")
    project.commit("A search")
    project.isoscope("mirror")
    return project


@pytest.fixture
def keep() -> Iterator[Callable[[Path], Path]]:
    """Keep the bytes of a file until the test is over."""
    kept: dict[Path, bytes] = {}

    def keep(file: Path) -> Path:
        kept.setdefault(file, file.read_bytes())
        return file

    yield keep
    for file, content in kept.items():
        file.unlink(missing_ok=True)
        file.write_bytes(content)


Keep = Callable[[Path], Path]


def audited(project: Project, *words: str, code: int = 0) -> dict[str, str]:
    """The findings of an audit: line → kind."""
    told = json.loads(project.isoscope("audit", "--json", *words, code=code).out)
    assert told["sound"] == (code == 0)
    kinds = [one["kind"] for one in told["findings"]]
    assert kinds == sorted(kinds, key=["damage", "mismatch", "MLflow", "note"].index), "the most serious first"
    return {one["line"]: one["kind"] for one in told["findings"]}


def found_at(project: Project, patterns: dict[str, str]) -> dict[str, Path]:
    """The first file of each pattern."""
    digest = project.digest("conv2d")
    return {kind: next(project.folder.glob(pattern.format(digest=digest))) for kind, pattern in patterns.items()}


def names(line: str, file: Path) -> bool:
    """Whether a line names a file, or its folder and then the file."""
    folder, _, rest = line.partition(": ")
    return str(file) in line or (str(file).startswith(folder) and file.name in rest)


def rewritten(file: Path, text: str) -> None:
    """Replace a file, which may be a read-only link to DVC's cache."""
    file.unlink()
    file.write_text(text, "utf-8")


def test_an_untouched_project_has_no_finding_also_where_its_traces_are_repeated(explored_project: Project) -> None:
    assert audited(explored_project, "--deep") == {}


COMMON = ("missing", "flipped")


@pytest.mark.parametrize(
    "damage", [one if one in COMMON else pytest.param(one, marks=pytest.mark.exhaustive) for one in KINDS]
)
@pytest.mark.parametrize("files", [AT_REST, MADE], ids=["of runs", "made from runs"])
def test_every_damaged_file_is_named(explored_project: Project, keep: Keep, files: dict[str, str], damage: str) -> None:
    project = explored_project
    struck = found_at(project, files)
    for file in struck.values():
        for each in file.parent.iterdir() if damage == "swapped" else [file]:
            if each.is_file():
                keep(each)
        KINDS[damage](file)
    lines = [line for line, kind in audited(project, code=1).items() if kind != "note"]
    relative = {kind: file.relative_to(project.folder) for kind, file in struck.items()}
    assert not [kind for kind, file in relative.items() if not any(names(line, file) for line in lines)], lines


def test_altered_numbers_are_named_by_table_row_and_column(project: Project, keep: Keep) -> None:
    """In a table, in dvc.lock, and on the page: a cell, a sentence, a figure; files stay well-formed."""
    page = keep(project.folder / "reports/index.html")
    text = page.read_text("utf-8")
    place = "fusion/comparison/accuracy conv2d"
    row = re.search(rf'<tr data-from="{place}">\n<th scope="row">conv2d</th>\n<td class="number">([\d.]+)', text)
    assert row
    text = text[: row.start(1)] + "0.999" + text[row.end(1) :]
    sentence = re.search(r'<p data-from="(fusion/[^"]*)"><strong>([^<]*)<', text)
    assert sentence
    text = text[: sentence.start(2)] + "All arms reach 0.98" + text[sentence.end(2) :]
    rewritten(page, text)
    seeds = keep(project.folder / PART / "tables/seeds.parquet")
    table = pd.read_parquet(seeds)
    column = next(name for name in table.select_dtypes("float"))
    table.loc[1, column] += 0.125
    seeds.unlink()
    write_parquet(table, seeds)
    figure = keep(project.folder / PART / "figures/training.svg")
    rewritten(figure, figure.read_text("utf-8").replace("<path", '<path opacity="0"', 1))
    lines = audited(project, code=1)
    assert {*lines.values()} == {"mismatch"}
    assert any(one.startswith(f"reports/index.html: {place}#mean,sd,seeds: '0.999") for one in lines)
    assert any(one.startswith(f"reports/index.html: {sentence[1]}: 'All arms reach 0.98'") for one in lines)
    cell = rf"{PART}/tables/seeds.parquet: row 1 .*, column {column}: .*, the runs give"
    assert any(re.match(cell, one) for one in lines)
    assert any(one.startswith(f"{PART}/figures/training.svg: row ") for one in lines)


def test_an_altered_large_table_of_the_page_is_named(explored_project: Project, keep: Keep) -> None:
    """Also where no dvc.lock vouches for it."""
    project, lock = explored_project, keep(explored_project.folder / "dvc.lock")
    lock.unlink()
    file = next(iter(sorted((project.folder / "reports/data").glob("*.csv"))))
    table, column = pd.read_csv(keep(file)), "magnitudes"
    table.loc[1, column] = table.loc[1, column].replace("[0.", "[7.", 1)
    rewritten(file, table.to_csv(index=False))
    other = file.with_name("other.csv")
    other.write_text("a\n1\n", "utf-8")
    lines = audited(project, code=1)
    other.unlink()
    assert any(re.match(rf"reports/data/{file.name}: row 1 .*, row 0.*, column {column}: '7", one) for one in lines)
    assert "reports/data/other.csv: is of no figure of the page; run: isoscope repro report" in lines


def test_dvc_lock_is_compared_with_what_it_names(project: Project, keep: Keep) -> None:
    lock = keep(project.folder / "dvc.lock")
    text = lock.read_text("utf-8")
    path, md5 = next((out["path"], out["md5"]) for out in project.lock()["train@fusion"]["outs"])
    first, _, rest = text.partition("  train@fusion:\n")
    rewritten(lock, first + "  train@fusion:\n" + rest.replace(md5, f"{'0' * 32}.dir", 1))
    lines = audited(project, code=1)
    assert any(one.startswith(f"{path}: is missing, or not what dvc.lock names") for one in lines)
    assert any(one.startswith(f"dvc.lock: {path} is not what analyse@fusion read") for one in lines)
    rewritten(lock, text[: text.rindex("md5: ", 0, len(text) // 2) + 9])
    assert any("dvc.lock" in one for one in audited(project, code=1))
    lock.unlink()
    assert any("dvc.lock" in one for one in audited(project, code=1))


def test_mlflow_lacks_points_and_unknown_files_are_notes(project: Project, keep: Keep) -> None:
    database = keep(project.folder / "mlflow.db")
    digest = project.digest("conv2d")
    runs = f"run_uuid IN (SELECT run_uuid FROM tags WHERE key = 'isoscope.digest' AND value = '{digest}')"
    with sqlite3.connect(database) as opened:
        several = f"SELECT key, MIN(step) FROM metrics WHERE {runs} GROUP BY key HAVING COUNT(DISTINCT step) > 1"
        metric, first = opened.execute(several).fetchone()
        opened.execute(f"DELETE FROM metrics WHERE {runs} AND key = ? AND step = ?", (metric, first))
    opened.close()
    folder, file = project.folder / "models/other", project.folder / PART / "tables/other.json"
    folder.mkdir()
    file.write_text("{}")
    try:
        lines = audited(project, code=1)
        database.unlink()
        noted = audited(project)
    finally:
        folder.rmdir()
        file.unlink()
    (line,) = [one for one, kind in lines.items() if kind == "MLflow"]
    assert line.startswith(f"MLflow, run {digest[:12]}: {metric} is ")
    assert " points, the last " in line
    assert {*noted.values()} == {"note"}
    for there in ("mlflow.db: is not here", "models/other: is not in params.yaml", f"{PART}/tables/other.json: no run"):
        assert any(one.startswith(there) for one in noted), noted


def test_a_run_of_other_data_and_another_trace_are_found(project: Project, keep: Keep) -> None:
    trace = keep(project.folder / RUN / "trace.json")
    found = json.loads(trace.read_text("utf-8"))
    rewritten(trace, json.dumps(found | {"steps": found["steps"][:3] + found["steps"][2:3] + found["steps"][4:]}))
    config = keep(project.folder / "models/fusion/additive/seed-0/config.yaml")
    rewritten(config, re.sub(r"(data/processed/tiny: )\w+", rf"\g<1>{'1' * 32}", config.read_text("utf-8")))
    lines = audited(project, "--deep", code=1)
    assert any(one.startswith(f"{RUN}: the first updates again: ") for one in lines)
    assert any("was made from another data/processed/tiny than is here" in one for one in lines)


def test_the_page_has_the_result_until_a_table_changes(project: Project, keep: Keep) -> None:
    page = keep(project.folder / "reports/index.html")
    audited(project)
    project.isoscope("report")
    assert re.search(
        r"Audited on \d{4}-\d\d-\d\d. Findings: damage 0, mismatch 0, MLflow 0, note 0.", page.read_text("utf-8")
    )
    assert audited(project) == {}, "its own line is no difference"
    scores = keep(project.folder / PART / "metrics.json")
    rewritten(scores, scores.read_text("utf-8") + " ")
    project.isoscope("report")
    assert "Audited on" not in page.read_text("utf-8")


class Numbers(HTMLParser):
    """Numbers in the visible text of a page that lie in no element with `data-from`, and not in `ALLOWED`."""

    ALLOWED = ("h1", "h2", "h3", "title", "style", "script", "nav", "footer", "code", "summary")
    VOID = ("br", "hr", "img", "input", "link", "meta")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside: list[bool] = [False]
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        own = dict(attrs)
        known = "data-from" in own or tag in self.ALLOWED or own.get("aria-labelledby") == "reading"
        if tag not in self.VOID:
            self.inside.append(self.inside[-1] or known)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if not self.inside[-1]:
            self.found += re.findall(r"(?<!\w)\d[\d.,]*(?!\w)", data)  # not the F1, sha256 or 95th of words


def test_every_number_of_the_page_has_a_place(explored_project: Project) -> None:
    """Headings, the contents, code, and the section that explains the page have none."""
    page = explored_project.text("reports/index.html")
    assert Numbers(page).found == []
    assert Numbers(page.replace("<main", "<p>Accuracy 0.97</p><main")).found == ["0.97"]
    assert len(re.findall("data-from", page)) > 100


def test_the_commands_of_its_page_print_what_it_shows(project: Project) -> None:
    assert Page("docs/audit.md", project).run() == 7


def test_pages_of_results_are_made_again_by_their_script(tmp_path: Path) -> None:
    folder = tmp_path / "docs/results"
    root = Path(__file__).parents[2]
    for name in ("docs/results", "variants"):
        shutil.copytree(root / name, tmp_path / name)
    for name in ("params.yaml", "README.md"):
        shutil.copy(root / name, tmp_path)
    for other in {*folder.glob("*.md")} - {folder / "embedded.md", folder / "fusion.md"}:
        other.unlink()  # tests/test_results.py makes the tables of every page again
    assert [*_results(tmp_path)] == []
    page = folder / "embedded.md"
    page.write_text(page.read_text("utf-8").replace(".911", ".912"), "utf-8")
    assert [line for _, line in _results(tmp_path)] == [
        "docs/results/embedded.md: is not of its data; run: python docs/results/rebuild.py"
    ]
    (folder / "embedded/fusion.csv").unlink()
    with pytest.raises(RunError, match=r"fusion\.csv"):
        [*_results(tmp_path)]
