"""The types of params.yaml and of a study's cell."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from isoscope.platform.config.base import Below, Conflicts, Count, Fraction, Level, Name, Section, Seed, Share
from isoscope.platform.config.data import Data
from isoscope.platform.config.extraction import Extraction, Measures
from isoscope.platform.config.model import Model
from isoscope.platform.config.objective import Built as Objective
from isoscope.platform.config.penalty import Built
from isoscope.platform.config.searching import Search
from isoscope.platform.config.training import Training

GONE = {"inside": "fusion", "chart": "isotropy"}
"""An entry of `looks`, in a project of an earlier version → the kind that has taken its place."""


class Study(Section):
    """A study: all combinations of its axes, with several seeds, on one task."""

    about: Annotated[str, Field(min_length=1)] | None = None
    """What the study asks, or is for: the report begins with it. It is for people and changes no run."""
    kind: Name
    """What its arms are compared by: `arms` (scores on the test split), or beside them `fusion` (hidden states and
    their measures), `isotropy` (curves, final averages, published metrics), `dynamics` (allocation of the loss), or a
    kind of your own (docs/plugins.md).
    """
    task: Name
    """Task: an overlay `variants/task/<task>.yaml`."""
    settings: Annotated[tuple[Name, ...], Field(strict=False)]
    """Overlays `variants/settings/<name>.yaml` for all arms, merged before the overlays of the axes."""
    axes: Annotated[dict[Name, Annotated[tuple[Name, ...], Field(strict=False)]], Field(min_length=1)]
    """Axis → values; each value is an overlay `variants/<axis>/<value>.yaml`; the first value is the reference. A study
    without seeds may have axes without values.
    """
    seeds: Annotated[tuple[Seed, ...], Field(strict=False)]
    """Distinct seeds of every arm; empty: the study is not run."""

    @model_validator(mode="before")
    @classmethod
    def _looks(cls, given: Any) -> Any:
        if isinstance(given, dict) and "looks" in given:
            kinds = (
                " or ".join(GONE.get(str(one), "?") for one in given["looks"]) or "arms, or dynamics with an allocation"
            )
            raise ValueError(f"looks: {given['looks']} is now kind: {kinds}; replace it (isoscope docs studies)")
        return given

    def _conflicts(self) -> Conflicts:
        yield len(set(self.seeds)) < len(self.seeds), f"seeds {list(self.seeds)} contain a duplicate"
        for axis, values in self.axes.items():
            yield bool(self.seeds) and not values, f"axes.{axis} has no values, but the study has seeds"


class Phases(Section):
    """Thresholds of the phases of a training run, in standard errors of a probe's accuracy."""

    snapshots: Count
    """Minimum snapshots of a run to name phases."""
    chance: Annotated[float, Field(ge=0, le=10)]
    """Separability within this many standard errors of chance: no structure."""
    best: Annotated[float, Field(ge=0, le=10)]
    """Separability within this many standard errors of the run's best: maximum."""
    fall: Fraction
    """Late homogenisation: minimum loss of separability, as a share of the best separability above chance."""


class Analysis(Section):
    """Comparison of runs."""

    confidence: Level
    """Coverage of intervals."""
    power: Level
    """Power of the minimum detectable effect."""
    margin: Fraction
    """Smallest relevant difference between two arms, in the metric's unit; used by verdicts."""
    phases: Phases


class Reproduction(Section):
    """Comparison of a study's final averages with published metrics."""

    last: Share
    """Share of a run's last updates and evaluations in its averages."""
    tolerance: Share
    """Largest difference from a published share that counts as agreement, if other arms differ twice as much."""


class Report(Section):
    """Options of the report page."""

    title: Annotated[str, Field(min_length=1)] | None
    """Heading of the page; null: the names of its studies."""


class Root(Section):
    """Sections of params.yaml that overlays cannot set."""

    plugins: Annotated[tuple[Below, ...], Field(strict=False)]
    """Python files, or folders of them, below plugins/ with your own fusions, penalties, data sets or measures.

    A folder with a tables.py is a kind of study.
    """
    tasks: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    """Tasks to prepare; they must include the task of every study with seeds."""
    studies: dict[Name, Study]
    comparisons: dict[Name, Any]  # `comparing.section` gives its type
    """Comparisons of studies, by name."""
    search: Search | None
    """Options of `isoscope search`; null: no search."""
    extraction: Extraction
    measures: Measures
    analysis: Analysis
    reproduction: Reproduction
    report: Report


class Kind(Section):
    """A kind that a plugin defines."""

    kind: str


class Cell(Section):
    """Resolved parameters of one arm."""

    data: Data
    model: Model
    objective: Annotated[Objective, Field(discriminator="kind")]
    """Training objective."""
    penalty: Annotated[Built, Field(discriminator="kind")]
    observers: Annotated[dict[Name, Kind], Field(max_length=0)]
    """Your own observers (docs/plugins.md), by names of your choice. An observer does not change the run."""
    training: Training
