"""Train, analyse and report a study with loss change allocation: tables, figures, and a rerun for a changed file."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.platform.config.load import Configuration
from isoscope.platform.figures.pictures import pictures
from isoscope.platform.results.study_tables import read_tables
from isoscope.platform.stages.study_run import run_files
from isoscope.studies.dynamics.tables import FILES
from isoscope.studies.dynamics.views import VIEWS
from struck_views import wrong
from trained_projects import TINY, Trained, trained

ROOT = Path(__file__).parents[3]
SETTINGS = "variants/settings/small_allocated.yaml:training"
SLICES = "variants/settings/sliced.yaml:training.slices"
FEW = (
    *TINY,
    "studies.dynamics.seeds=[0]",
    "variants/settings/small_language.yaml:training.budget.number=12",
    *(f"{SETTINGS}.allocation.{name}" for name in ("sentences=16", "folds=4", "dense=5", "chords=2")),
    "studies.dynamics.settings=[small_language, small_allocated, sliced]",
    *(f"{SLICES}.{name}" for name in ("sentences=16", "estimator=trapezoid", "tolerance=null", "dense=1", "chords=2")),
)


class Made(Trained):
    """A project with three trained arms, analysed."""

    @property
    def part(self) -> Path:
        return self.project.folder / paths.analysed("dynamics")

    @property
    def outputs(self) -> list[Path]:
        return [self.project.folder / paths.trained("dynamics", arm, 0) for arm in self.configuration.arms("dynamics")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    with trained(tmp_path_factory.mktemp("dynamics"), Configuration(ROOT, FEW), ["dynamics"]) as found:
        found.analyse("dynamics", ["dynamics"])
        yield Made(*found)


def test_every_table_and_figure_is_there(made: Made) -> None:
    tables = read_tables(made.part).by_name
    assert {"learned", "allocated", "closed", "course", "synchrony", "positive", "heads", "hurting"} < set(tables)
    assert {"slices", "slices_course"} < set(tables)
    drawn = {path.stem for path in (made.part / paths.FIGURES).glob("*.svg")}
    found = {one.name: one for one in pictures(VIEWS, tables)}
    assert {name for name, one in found.items() if not one.lines} == drawn - {"training"}
    assert len(found["learned"].lines) == 1 + len(tables["learned"])
    assert {view.name for view in VIEWS} == {one.view.name for one in found.values()}
    for one in found.values():
        assert len(one.caption) > 100
    assert "n = 1 seed, so no interval." in found["allocation-nats"].caption


def test_the_tables_agree_with_the_runs(made: Made) -> None:
    tables = read_tables(made.part).by_name
    for output, arm in zip(made.outputs, made.configuration.arms("dynamics"), strict=True):
        closure = pd.read_parquet(output / "closure.parquet")
        total = closure[closure["total"] & (closure["set"] == "validation")].iloc[0]
        own = tables["allocated"]
        whole = own[(own["arm"] == arm) & (own["level"] == "all") & (own["set"] == "validation")].iloc[0]
        assert whole["nats"] == pytest.approx(total["allocated"])
        assert whole["share"] == pytest.approx(total["allocated"] / total["change"])
        counts = tables["hurting"]
        cases = counts[(counts["arm"] == arm) & (counts["unit"] == "component")].groupby("counted")["cases"].first()
        assert cases.to_dict() == {"updates": 12, "single": 5, "chords": 2}
    stacks = tables["allocated"].groupby("arm", sort=False)["stack"].agg(set).tolist()
    assert stacks[0] == {"enc", "all"}
    assert {"enc", "dec", "cross"} < stacks[2]


def test_an_arm_that_learned_nothing_has_no_verdict(made: Made) -> None:
    tables = read_tables(made.part).by_name
    words = dict(zip(tables["learned"]["arm"], tables["learned"]["word"], strict=True))
    assert words["masked-additive"] == "not trained", "12 updates"
    compared = tables["hurting_published"]
    lost = compared[compared["arm"] == "masked-additive"]
    assert lost["tau"].isna().all()
    assert lost["same_phase"].isna().all()
    (figure,) = (one for one in pictures(VIEWS, tables) if one.name == "hurting-single")
    assert "Not trained, so without a verdict: " in figure.caption


def test_every_figure_survives_tables_without_numbers(made: Made, pytestconfig: pytest.Config) -> None:
    tables = read_tables(made.part).by_name
    assert wrong(VIEWS, tables, exhaustive=pytestconfig.getoption("--exhaustive")) == []


def test_an_allocation_is_an_input_and_runs_that_lost_it_are_no_runs_without_it(made: Made) -> None:
    assert {file.name for file in run_files(made.outputs[0], FILES)} >= set(FILES)
    config = (made.part / "config.yaml").read_text("utf-8")
    for name in FILES:
        assert f"masked-additive/seed-0/{name}" in config
    (made.outputs[0] / "minibatch.parquet").unlink()
    assert {file.name for file in run_files(made.outputs[0], FILES)} & {*FILES} == {*FILES} - {"minibatch.parquet"}
    for output in made.outputs:
        for name in FILES:
            (output / name).unlink(missing_ok=True)
    with pytest.raises(InputError, match=r"parquet is missing; run: isoscope train "):
        made.analyse("dynamics", ["dynamics"])
