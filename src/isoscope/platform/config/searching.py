"""The section `search`: space, objectives, sampler, pruner and budget of a hyperparameter search."""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from isoscope.base.errors import InputError
from isoscope.base.metric import Metric
from isoscope.platform.config.base import Conflicts, Count, Direction, Name, Section, Seed
from isoscope.platform.config.explain import nearest

Scalar = bool | int | float | str | None
LARGEST, FINEST = 1e12, 1_000_000
"""Maximum absolute value of a searched number, and maximum steps between its bounds."""
SEEN = ("train/", "validation/")
"""Prefixes of an objective's metrics that may guide a search."""
UNSEEN = ("test/", "posthoc/")
"""Prefixes of metrics on the test split; they must not guide a search."""


Value = Scalar | Annotated[tuple[Scalar, ...], Field(strict=False)]


class Dimension(Section):
    """Values of a searched name: choices, or a number between two inclusive bounds."""

    choices: Annotated[tuple[Value, ...], Field(min_length=1, strict=False)] = ()
    """Values; for an axis (a name without a dot): overlays `variants/<axis>/<choice>.yaml`."""
    low: int | float | None = None
    high: int | float | None = None
    """Upper bound; two integer bounds draw integers."""
    log: bool = False
    """Draw uniformly on a logarithmic scale."""
    step: int | float | None = None
    """Distance between values, starting at `low`."""
    when: dict[str, Annotated[tuple[Scalar, ...], Field(min_length=1, strict=False)]] = Field({})
    """Condition: earlier names of the space → choices under which this name exists; empty: always."""

    @property
    def whole(self) -> bool:
        """Whether the number is an integer."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of a number."""
        return cast("tuple[float, float]", (self.low, self.high))

    def _conflicts(self) -> Conflicts:
        yield bool(self.choices) == ((self.low, self.high) != (None, None)), "expected either choices, or low and high"
        (low, high), step = self.bounds, self.step
        if self.choices:
            # The study stores lists as JSON, so choices with equal JSON cannot be distinguished.
            distinct = {json.dumps(one) if isinstance(one, tuple) else one for one in self.choices}
            yield len(distinct) < len(self.choices), f"choices {list(self.choices)} contain a duplicate"
            yield self.log or step is not None, "log and step do not apply to choices: remove them"
            return
        yield (
            None in self.bounds or not -LARGEST <= low < high <= LARGEST,
            f"low {low} and high {high}: expected numbers up to {LARGEST:g}, low below high",
        )
        yield self.log and (low <= 0 or step is not None), "log needs low above 0 and no step"
        if step is not None:
            yield (
                step <= 0 or (self.whole and not isinstance(step, int)),
                f"step {step}: expected a number above 0, an integer if both bounds are integers",
            )
            yield (
                not 1 <= (high - low) / step <= FINEST,
                f"step {step}: expected 1 to {FINEST:,} steps from low to high",
            )
            start, end, width = (Decimal(str(number)) for number in (low, high, step))
            below = end - (end - start) % width
            yield (
                below != end,
                f"step {step} does not lead from low {low} to high {high}: "
                f"expected high {below.normalize():f} or {(below + width).normalize():f}",
            )


class Constraint(Section):
    """Largest loss against the default arm; a trial that loses more is infeasible."""

    better: Direction
    margin: Annotated[float, Field(ge=0, le=1e6)]
    """Allowed loss in the metric's unit."""


class Budget(Section):
    """Budget of a search. A larger budget resumes the same study."""

    trials: Count
    """Number of trials, in any end state."""
    hours: Annotated[float, Field(ge=1e-3, le=1e5)] | None
    """Total hours of all trials, after which no trial starts; null: no limit."""


class ModelBased(Section):
    """tpe: a tree-structured Parzen estimator (multivariate, grouped, with constant liar); gp: a Gaussian process."""

    kind: Literal["tpe", "gp"]
    seed: Seed
    startup: Count
    """Initial random trials."""


class NSGAII(Section):
    """The genetic algorithm NSGA-II."""

    kind: Literal["nsgaii"]
    seed: Seed
    population: Annotated[int, Field(ge=2)]
    """Trials per generation."""


class Unguided(Section):
    """Proposals that do not depend on results.

    random: independent draws; grid: every combination once, in random order, and the study ends when all are tried;
    qmc: a scrambled Sobol sequence.
    """

    kind: Literal["random", "grid", "qmc"]
    seed: Seed


class NoPruner(Section):
    """No pruning: every trial runs to its end."""

    kind: Literal["none"]


class Median(Section):
    """Prune a trial if its best value so far is worse than the median of earlier trials at the same step."""

    kind: Literal["median"]
    startup: Annotated[int, Field(ge=0)]
    """Finished trials before pruning starts."""
    warmup: Annotated[int, Field(ge=0)]
    """Steps of a trial before it may be pruned."""


class Hyperband(Section):
    """Successive halving at several rates; a step is an evaluation; seeds run one after the other."""

    kind: Literal["hyperband"]
    reduction: Annotated[int, Field(ge=2)]
    """Reduction factor: one of this many trials continues."""


class Wilcoxon(Section):
    """Prune a trial that is worse than the best by a signed-rank test over seeds; a step is a finished seed."""

    kind: Literal["wilcoxon"]
    p: Annotated[float, Field(ge=1e-6, le=0.5)]
    """p-value below which a trial is pruned."""
    startup: Annotated[int, Field(ge=2)]
    """Finished seeds before a trial may be pruned."""


class Search(Section):
    """A hyperparameter search: trials are arms of a study, merged over one of its arms."""

    name: Name
    """Name of the Optuna study in the storage."""
    study: Name
    """Study whose task and settings the trials share."""
    arm: str
    """Default arm: a trial's choices are merged over it; constraints and `confirm` compare with it."""
    settings: Annotated[tuple[Name, ...], Field(strict=False)]
    """Overlays `variants/settings/<name>.yaml` of the trials, merged after the study's settings."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, strict=False)]
    """Seeds of each trial; a trial's value is the mean over them."""
    space: Annotated[dict[str, Dimension], Field(min_length=1)]
    """Dotted name of a number, or name of an axis → its values."""
    objectives: Annotated[dict[str, Direction], Field(min_length=1)]
    """Logged metric → direction; several objectives give a Pareto front."""
    constraints: dict[str, Constraint]
    """Logged metric → constraint."""
    at: Literal["best", "last"]
    """Epoch of the metrics: the epoch chosen by `training.select`, or the last."""
    budget: Budget
    retries: Annotated[int, Field(ge=0)]
    """Retries after a crash of a run. A trial that was interrupted is always resumed."""
    sampler: Annotated[ModelBased | NSGAII | Unguided, Field(discriminator="kind")]
    pruner: Annotated[NoPruner | Median | Hyperband | Wilcoxon, Field(discriminator="kind")]

    @property
    def by_seed(self) -> bool:
        """Whether a trial reports a value after each seed; else after each epoch."""
        return isinstance(self.pruner, Wilcoxon)

    def _conflicts(self) -> Conflicts:
        yield len(set(self.seeds)) < len(self.seeds), f"seeds {list(self.seeds)} contain a duplicate"
        for name in (*self.objectives, *self.constraints):
            yield name.startswith(UNSEEN), f"{name!r} is a metric of the test split; use a metric of validation/"
        yield (
            self.pruner.kind != "none" and len(self.objectives) > 1,
            f"pruner {self.pruner.kind!r} needs a single objective, not {len(self.objectives)}",
        )
        if isinstance(self.pruner, Wilcoxon):
            few = f"pruner 'wilcoxon' compares over seeds: give more than {self.pruner.startup} seeds"
            yield len(self.seeds) <= self.pruner.startup, few
            least = 0.5 ** (len(self.seeds) - 1)  # one-sided, and after its last seed a trial is complete
            yield (
                least >= self.pruner.p,
                f"pruner 'wilcoxon': p {self.pruner.p} prunes nothing: of {len(self.seeds)} seeds the least possible p "
                f"is {least:g}; give more seeds or a larger p",
            )
        earlier: dict[str, tuple[Value, ...]] = {}
        for name, one in self.space.items():
            yield (
                "." not in name and not (one.choices and all(isinstance(choice, str) for choice in one.choices)),
                f"space.{name}: the values of an axis are overlay names: give choices of text",
            )
            for other, values in one.when.items():
                place, known = f"space.{name}.when.{other}", earlier.get(other, ())
                yield not known, f"{place}: no earlier name of the space with choices{nearest(other, self.space)}"
                for value in values:
                    yield value not in known, f"{place}: {value!r} is not one of its choices"
            yield (
                self.sampler.kind == "grid" and not one.choices and not one.whole and one.step is None,
                f"space.{name}: a grid needs a finite number of values: give a step or choices",
            )
            earlier[name] = one.choices


def check_directions(search: Search, metrics: Mapping[str, Metric]) -> None:
    """Raise `InputError` if the search prefers a metric in the direction that the objective declares worse.

    `metrics`: of the objective, by name.
    """
    constraints = ((name, one.better) for name, one in search.constraints.items())
    for name, direction in (*search.objectives.items(), *constraints):
        found = metrics.get(name.rpartition("/")[2])
        declared = found and found.better
        if name.startswith(SEEN) and declared not in (None, direction):
            raise InputError(
                f"params.yaml: search: {name} is {direction}d, but its objective declares {declared!r}; correct it"
            )


def exists(one: Dimension, chosen: Mapping[str, Any]) -> bool:
    """Return whether a name of the space exists under the choices made before it."""
    return all(name in chosen and chosen[name] in values for name, values in one.when.items())


def branches(search: Search) -> Iterator[tuple[dict[str, Any], dict[str, Dimension]]]:
    """Yield every combination of axes and of choices that conditions use, with the other names that exist under it."""
    asked = {name for one in search.space.values() for name in one.when}
    asked |= {name for name in search.space if "." not in name}
    found: list[dict[str, Any]] = [{}]
    for name, one in search.space.items():
        if name in asked:
            found = [
                {**chosen, **({name: value} if exists(one, chosen) else {})}
                for chosen in found
                for value in (one.choices if exists(one, chosen) else one.choices[:1])
            ]
    for chosen in found:
        others = ((name, one) for name, one in search.space.items() if name not in asked)
        yield chosen, {name: one for name, one in others if exists(one, chosen)}


def corners(search: Search) -> Iterator[dict[str, Any]]:
    """Yield assignments that cover each name's bounds or choices, under every condition.

    They include all `branches`. Other names step through their values together.
    """
    for chosen, others in branches(search):
        ends: dict[str, tuple[Any, ...]] = {name: one.choices or one.bounds for name, one in others.items()}
        for at in range(max([len(values) for values in ends.values()], default=1)):
            yield chosen | {name: values[min(at, len(values) - 1)] for name, values in ends.items()}
