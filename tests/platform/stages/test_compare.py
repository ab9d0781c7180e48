"""Compare models of two trained studies: tables, figures, section of the report, notebook, and what is refused."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from isoscope import notebook
from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.base.kind import kind
from isoscope.platform.config.across_studies import check_all
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.stages.report import report
from trained_projects import TINY, Trained, trained

ROOT = Path(__file__).parents[3]
SETTINGS = "variants/settings/small_allocated.yaml:training"
FEW = (
    *TINY,
    "variants/settings/small_language.yaml:training.budget.number=4",
    *(f"{SETTINGS}.allocation.{name}" for name in ("sentences=16", "folds=4", "dense=1", "chords=2")),
)
STUDY = {"task": "reordered", "settings": ["small_language", "small_allocated"], "seeds": [0, 1], "kind": "arms"}
AXES = {"objective": ["masked", "causal"], "fusion": ["additive"]}
NAME = "spaces"
VIEWS = {view.name for view in kind(NAME).views} - {"self_sim_by_part_of_speech", "similar_rows"}
"""Figures of sentences without a treebank, and of models, which have layers."""


def section(few: str = "few", arm: str = "causal-additive-three_tenths") -> dict[str, Any]:
    """The entry of params.yaml for a model of each study, with few draws."""
    models = {"all": {"study": "all", "arm": "masked-additive"}, "few": {"study": few, "arm": arm}}
    return read_yaml(ROOT, paths.PARAMS)["comparisons"]["spaces"] | {"models": models, "draws": 20, "permutations": 2}


class Made(Trained):
    """A project with two trained studies that differ in the number of training examples."""

    def compare(self, name: str = NAME) -> Path:
        return self.analyse(name, self.configuration.root.studies, self.configuration.comparison(name))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder, tree = tmp_path_factory.mktemp("compared"), read_yaml(ROOT, paths.PARAMS)
    tree["tasks"], tree["search"] = ["reordered"], None
    tree["studies"] = {"all": STUDY | {"axes": AXES}, "few": STUDY | {"axes": AXES | {"fraction": ["three_tenths"]}}}
    tree["comparisons"] = {NAME: section()}
    configuration = Configuration(ROOT, FEW, raw=tree)
    check_all(configuration)
    with trained(folder, configuration, configuration.root.studies) as found:
        yield Made(*found)


def test_tables_and_figures_are_there(made: Made) -> None:
    """The entry of params.yaml: every fourth of the snapshots 0, 1, 2 and 4, and the chosen checkpoint of update 4."""
    folder = made.compare() / paths.TABLES
    assert folder == made.project.folder / f"reports/parts/{NAME}/tables"
    table = pd.read_parquet(folder / "over_training.parquet")
    assert set(zip(table["update"], table["chosen"], strict=True)) == {(0, False), (4, True)}
    itself = (table["model"] == table["other_model"]) & (table["seed"] == table["other_seed"])
    assert table.loc[itself & table["chosen"], "adjusted"].dropna().to_numpy() == pytest.approx(1.0)
    drawn = {path.stem for path in (folder.parent / paths.FIGURES).glob("*.svg")}
    assert {name.partition("-")[0] for name in drawn} == VIEWS - {"counts"}, "a table has no drawing"
    assert {name for name in drawn if name.startswith("over_training")} == {"over_training-all", "over_training-few"}
    views = notebook.StudyTables(NAME, folder.parent, "spaces").views
    assert {name.partition("-")[0] for name in views} == VIEWS, "the notebook has them too"
    first, again = ({path: path.read_bytes() for path in made.compare().rglob("*.*")} for _ in range(2))
    assert first == again, "byte for byte"


def test_the_report_has_a_section_with_figures_and_origin(made: Made) -> None:
    folder, root = made.compare(), made.configuration.root
    for study in root.studies:
        made.analyse(study, [study])
    page = report(root.report, root.studies, root.comparisons, root.tasks, project=made.project).page.read_text("utf-8")
    section = page[page.index(f'<h2 id="comparison-{NAME}">') :].partition("</section>")[0]
    digest = read_yaml(folder, Path("config.yaml"))["digest"]
    for text in (digest[:12], "data/processed/reordered"):
        assert text in section
    for study in root.comparisons[NAME].compared:
        seeds, arms = len(root.studies[study].seeds), len([*made.configuration.arms(study)])
        assert f'{seeds} of {seeds * arms} runs of the study <a href="#study-{study}">' in section
    assert '<a href="#run-' in section, "its runs, as those of a study"
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert {*re.findall(r'href="#(study-[a-z_]+)"', section)} == {f"study-{one}" for one in root.studies} < {*ids}


def test_models_without_snapshots_are_refused_before_training(made: Made) -> None:
    words = (*FEW, f"{SETTINGS}.snapshots.steps=none")
    with pytest.raises(InputError, match="study 'all' has arm 'masked-additive' without snapshots; set its training"):
        check_all(Configuration(ROOT, words, raw=made.configuration.raw))


@pytest.mark.parametrize(
    "name, study, arm, words",
    [
        (NAME, "fiw", "causal-additive", "no study 'fiw'; did you mean 'few'"),
        (NAME, "none", "causal-additive", "study 'none' has no seeds; set studies.none.seeds"),
        (NAME, "all", "causal-additiv", "study 'all' has no arm 'causal-additiv'; did you mean 'causal-additive'"),
        ("all", "few", "causal-additive-three_tenths", "a study has this name"),
    ],
)
def test_a_comparison_names_studies_that_run(made: Made, name: str, study: str, arm: str, words: str) -> None:
    tree = dict(made.configuration.raw)
    tree["studies"] = tree["studies"] | {"none": STUDY | {"axes": AXES, "seeds": []}}
    tree["comparisons"] = {name: section(study, arm)}
    with pytest.raises(InputError, match=words):
        check_all(Configuration(ROOT, FEW, raw=tree))
