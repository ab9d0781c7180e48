"""The types of params.yaml and of a study's cell."""

from typing import Annotated, Any, Literal

from pydantic import Field

from isoscope.base.built_in import TRANSFORMS
from isoscope.platform.config.base import Below, Conflicts, Count, Fraction, Key, Level, Name, Section, Seed, Share
from isoscope.platform.config.data import Data
from isoscope.platform.config.loss import Objective, Penalty
from isoscope.platform.config.model import Model
from isoscope.platform.config.searching import Search
from isoscope.platform.config.training import Training


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
    states: bool = False
    """Whether hidden states are extracted and measured although the kind does not need them; the objective has labels
    or scores. The report shows measures after `measures.transforms`; all measures are in `data/measures/`.
    """
    seeds: Annotated[tuple[Seed, ...], Field(strict=False)]
    """Distinct seeds of every arm; empty: the study is not run."""

    def _conflicts(self) -> Conflicts:
        yield len(set(self.seeds)) < len(self.seeds), f"seeds {list(self.seeds)} contain a duplicate"
        for axis, values in self.axes.items():
            yield bool(self.seeds) and not values, f"axes.{axis} has no values, but the study has seeds"


class Treebank(Section):
    """Sentences with part-of-speech tags and dependency trees."""

    file: Below
    """A parquet file (tokens, upos, head) below texts/, or a data set's name below ISOSCOPE_HUB; `task`: the treebank
    that the task was prepared with, if any (generated tasks have trees).
    """
    sentences: Count
    """Number of sentences to draw."""


class Pairs(Section):
    """Pairs of sentences that people scored by how alike they are, for the measure `sts`."""

    file: Below
    """A parquet, csv, tsv or jsonl file (sentence1, sentence2, score) below texts/, or a data set's name below
    ISOSCOPE_HUB.
    """
    split: Name
    """Split of a data set below ISOSCOPE_HUB: its file `<split>.parquet`."""
    pairs: Count | None
    """Maximum number of pairs; null: all."""


class Extraction(Section):
    """The probe set, and the forward pass that stores its hidden states."""

    split: Literal["test", "validation"]
    """Split of the sentences; sentences that also occur in another split are left out. Note: the validation split
    selects the epoch.
    """
    every: Count
    """Analyse every n-th snapshot; always the first, the selected and the last."""
    share: Share
    """Share of the split's distinct sentences to use."""
    sentences: Count | None
    """Maximum number of sentences; null: no maximum."""
    words: Count
    """Minimum number of sampled words; whole sentences are drawn until it is reached."""
    block: Annotated[int, Field(ge=5)]
    """Sentences whose embedding-block parts are stored; linear maps on them are scored by 5-fold cross-validation."""
    attended: Count
    """Sentences in the attention pass."""
    gradients: Annotated[int, Field(ge=2)]
    """Maximum number of batches whose embedding-block gradients are compared; limited by the probe set's size."""
    gradient_batch: Count
    """Sentences per gradient batch."""
    treebank: Treebank | None
    """Treebank of the word probes; null: no word probes."""
    pairs: Pairs | None = None
    """Pairs of sentences with scores, for measures of pairs; null: none."""
    seed: Seed
    """Seed of these samples."""
    batch_size: Count
    """Sentences per forward pass."""
    precision: Literal["fp32", "bf16"]
    """Precision of the forward pass; stored values are fp32."""
    device: Literal["auto", "cpu", "cuda"]
    """Device. auto: a GPU where there is one; cuda: an absent GPU is an error, never replaced."""
    threads: Count | None
    """CPU threads; null: torch's default."""


class Probes(Section):
    """Linear probes of hidden states."""

    vectors: Annotated[tuple[Literal["first", "last", "mean"], ...], Field(min_length=1, strict=False)]
    """Sentence representations to probe; words are always probed."""
    every: Count
    """Probe every n-th snapshot for the label; always, and in detail, the first, the chosen and the random weights."""
    folds: Annotated[int, Field(ge=2)]
    """Outer cross-validation folds, split by sentence."""


class Measures(Section):
    """Measures computed from hidden states."""

    names: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    """Built-in and plugin measures to compute for every layer, snapshot and kind of representation."""
    vectors: Annotated[tuple[Literal["first", "last", "mean", "words"], ...], Field(min_length=1, strict=False)]
    """Representations to measure: first token ([CLS]), last token, mean over tokens, sampled words."""
    transforms: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)] = ("none",)
    """Transforms of the representations after which the measures are computed again, in the table `transformed`: none,
    centred, all_but_the_top, whitened, standardised. They are fitted on sentences that are not measured. With `none`
    alone there is no such table.
    """
    subsample: Annotated[int, Field(ge=16)]
    """Points per subsample (without replacement), for metrics at a fixed n and for intervals."""
    draws: Annotated[int, Field(ge=2)]
    """Number of subsamples."""
    confidence: Level
    """Coverage of the prediction intervals of metrics at a fixed n."""
    probes: Probes
    alignment: Literal["joint", "procrustes", "sign"]
    """Alignment of planes across snapshots."""
    perplexity: Annotated[float, Field(gt=1, le=1000)]
    """Perplexity of t-SNE."""
    neighbours: Count
    """Nearest neighbours per token, compared by word and by position."""
    diagram: Annotated[int, Field(ge=3)]
    """Points per persistence diagram; the cost of H1 grows with their cube."""
    map: Annotated[int, Field(ge=3)]
    """Tokens per arm in a t-SNE map, fewer if many arms share it; cost grows with their square."""
    square: Annotated[int, Field(ge=2)]
    """Tokens in a cosine map."""
    seed: Seed
    """Seed of subsamples, splits, k-means and t-SNE."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device of distances, nearest neighbours and spectra (docs/inside.md); an absent device is an error, never
    replaced. On cuda one process measures a run, since a CUDA context cannot be forked.
    """
    processes: Count | None
    """CPU processes per run; null: one per core. Not used on cuda."""
    threads: Count | None
    """CPU threads of linear algebra per process; null: the libraries' default, which suits a single process only."""

    def _conflicts(self) -> Conflicts:
        yield "none" not in self.transforms, f"transforms: {list(self.transforms)} are compared with none; add it"
        for one in self.transforms:
            yield one not in TRANSFORMS, f"transforms: {one!r} is none of {', '.join(TRANSFORMS)}"


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
    """Smallest relevant difference between two arms, for verdicts: a share of the metric's highest value (0.01 of BLEU
    is 1 point); if it has none, in its unit.
    """
    phases: Phases


class Reproduction(Section):
    """Comparison of a study's final averages with published metrics."""

    last: Share
    """Share of a run's last updates and evaluations in its averages."""
    tolerance: Share
    """Largest difference from a published share that counts as agreement, if other arms differ twice as much."""


class Execution(Section):
    """Where runs work, and how many at a time. No stage declares it: a change trains nothing again."""

    gpus_per_run: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of a GPU for each run: 0.25 puts four runs on each; null: proposed from the memory of the first runs."""
    slurm: dict[Name, str] = Field(default_factory=dict)
    """Options of `sbatch` under `--cluster slurm`, such as partition: gpu."""


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
    studies: dict[Key, Study]
    comparisons: dict[Key, Any]  # `comparing.section` gives its type
    """Comparisons of studies, by name."""
    search: Search | None
    """Options of `isoscope search`; null: no search."""
    extraction: Extraction
    measures: Measures
    analysis: Analysis
    reproduction: Reproduction
    report: Report
    execution: Execution = Execution()


class Kind(Section):
    """A kind that a plugin defines."""

    kind: str


class Cell(Section):
    """Resolved parameters of one arm."""

    data: Data
    model: Model
    objective: Annotated[Objective, Field(discriminator="kind")]
    """Training objective."""
    penalty: Annotated[Penalty, Field(discriminator="kind")]
    observers: Annotated[dict[Name, Kind], Field(max_length=0)]
    """Your own observers (docs/plugins.md), by names of your choice. An observer does not change the run."""
    training: Training
