"""`isoscope audit` finds every kind of damage to a file at rest, every altered number, and nothing else."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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
    "tokenizer": "data/processed/tiny/tokenizer.json",
    "hidden states": f"{STATES}/*.safetensors",
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
def project(explored: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a study, hidden states, measures and a search; nobody changes it but to put it back."""
    project = explored.project.copy(tmp_path_factory.mktemp("audited") / "project", mirrored=False)
    folder = project.folder / "reports/search"
    shutil.rmtree(folder, ignore_errors=True)
    write_search(folder, searched())
    project.isoscope("report")
    project.dvc("commit", "--force")
    project.isoscope("mirror")
    return project


@pytest.fixture
def put_back(project: Project) -> Iterator[Callable[[Path], Path]]:
    """Keep the bytes of a file until the test is over."""
    kept: dict[Path, bytes] = {}

    def keep(file: Path) -> Path:
        kept.setdefault(file, file.read_bytes())
        return file

    yield keep
    for file, content in kept.items():
        file.unlink(missing_ok=True)
        file.write_bytes(content)


def audited(project: Project, *words: str, code: int = 0) -> list[dict[str, str]]:
    """The findings of an audit."""
    told = json.loads(project.isoscope("audit", "--json", *words, code=code).out)
    assert told["sound"] == (code == 0)
    return told["findings"]


def found_at(project: Project, patterns: dict[str, str]) -> dict[str, Path]:
    digest = project.digest("conv2d")
    return {kind: next(project.folder.glob(pattern.format(digest=digest))) for kind, pattern in patterns.items()}


def test_an_untouched_project_has_no_finding_also_where_its_traces_are_repeated(project: Project) -> None:
    assert audited(project, "--deep") == []
    assert "every number on the page is backed by a run, 0 notes" in project.isoscope("audit").out


@pytest.mark.parametrize("damage", KINDS)
@pytest.mark.parametrize("files", [AT_REST, MADE], ids=["of runs", "made from runs"])
def test_every_damaged_file_is_named(
    project: Project, put_back: Callable[[Path], Path], files: dict[str, str], damage: str
) -> None:
    struck = found_at(project, files)
    for file in struck.values():
        for each in file.parent.iterdir() if damage == "swapped" else [file]:
            if each.is_file():
                put_back(each)
        KINDS[damage](file)
    lines = [f"{one['place']}: {one['wrong']}" if "place" in one else one["line"] for one in audited(project, code=1)]
    missed = [
        kind
        for kind, file in struck.items()
        if not any(_names(line, file.relative_to(project.folder)) for line in lines)
    ]
    assert not missed, "\n".join(lines)


def _names(line: str, file: Path) -> bool:
    """Whether a line names the file, or its folder and then the file."""
    folder, _, rest = line.partition(": ")
    return str(file) in line or (str(file).startswith(folder) and file.name in rest)
