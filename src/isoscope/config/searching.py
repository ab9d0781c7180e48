"""The section `search`: what is searched, for what, by whom, and for how long."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from isoscope.config.base import Count, Name, Section, Seed
from isoscope.config.explain import nearest

Direction = Literal["maximise", "minimise"]
Scalar = bool | int | float | str | None
LARGEST, FINEST = 1e12, 1_000_000
"""Of a searched number: its size, and the steps between its bounds."""
UNSEEN = ("test/", "posthoc/")
"""What is computed on the test split: nothing is chosen by it."""


Value = Scalar | Annotated[tuple[Scalar, ...], Field(strict=False)]


class Dimension(Section):
    """What a searched name may be: one of several choices, or a number between two bounds, both included."""

    choices: Annotated[tuple[Value, ...], Field(min_length=1, strict=False)] = ()
    """Values; under a name without a dot, an axis, overlays `variants/<axis>/<choice>.yaml`."""
    low: int | float | None = None
    high: int | float | None = None
    """Whole numbers are drawn where both bounds are written so."""
    log: bool = False
    """Whether a number is drawn evenly on a logarithmic scale."""
    step: int | float | None = None
    """Distance of two numbers, from `low` on."""
    when: dict[str, Annotated[tuple[Scalar, ...], Field(min_length=1, strict=False)]] = Field({})
    """Earlier names of the space → those of their choices under which this one exists; none: always."""

    @property
    def whole(self) -> bool:
        """Whether it is an integer."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def bounds(self) -> tuple[float, float]:
        """Of a number."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if bool(self.choices) == (self.low is not None or self.high is not None):
            raise ValueError("expected either choices, or low and high")
        if self.choices:
            # Equal ones, and those that are written alike (lists stand in a study as JSON), cannot be told apart there.
            if len({json.dumps(one) if isinstance(one, tuple) else one for one in self.choices}) < len(self.choices):
                raise ValueError(f"choices {list(self.choices)} name one twice")
            if self.log or self.step is not None:
                raise ValueError("log and step mean nothing to choices: leave them out")
        elif self.low is None or self.high is None or not -LARGEST <= self.low < self.high <= LARGEST:
            raise ValueError(f"low {self.low} and high {self.high}: expected numbers up to {LARGEST:g}, low below high")
        elif self.log and (self.low <= 0 or self.step is not None):
            raise ValueError("log needs low above 0, and no step")
        elif self.step is not None and (self.step <= 0 or (self.whole and not isinstance(self.step, int))):
            raise ValueError(f"step {self.step}: expected a number above 0, whole between whole bounds")
        elif self.step is not None and not 1 <= (self.high - self.low) / self.step <= FINEST:
            raise ValueError(f"step {self.step}: expected 1 to {FINEST:,} steps from low to high")
        return self


class Constraint(Section):
    """What a trial must not lose against the default arm: otherwise it is infeasible, however good."""

    better: Direction
    margin: Annotated[float, Field(ge=0, le=1e6)]
    """By how much it may be worse, in the metric's own unit."""


class Budget(Section):
    """When a search is done. A larger budget goes on with the same study."""

    trials: Count
    """Trials, however they end."""
    hours: Annotated[float, Field(ge=1e-3, le=1e5)] | None
    """Hours of work of all trials together, after which none is begun; null for no bound."""


class TPE(Section):
    """Tree-structured Parzen estimator: multivariate, by groups of names that exist together, constant liar."""

    kind: Literal["tpe"]
    seed: Seed
    startup: Count
    """Trials drawn at random first."""


class GP(Section):
    """A Gaussian process."""

    kind: Literal["gp"]
    seed: Seed
    startup: Count
    """Trials drawn at random first."""


class NSGAII(Section):
    """The genetic algorithm NSGA-II."""

    kind: Literal["nsgaii"]
    seed: Seed
    population: Annotated[int, Field(ge=2)]
    """Trials of a generation."""


class Random(Section):
    """Independent draws."""

    kind: Literal["random"]
    seed: Seed


class Grid(Section):
    """Every combination once, in a random order; the study is done when all were tried."""

    kind: Literal["grid"]
    seed: Seed


class QMC(Section):
    """A scrambled Sobol sequence; names that exist only under a condition are drawn at random."""

    kind: Literal["qmc"]
    seed: Seed


class NoPruner(Section):
    """Every trial runs to its end."""

    kind: Literal["none"]


class Median(Section):
    """A trial ends whose best value so far is worse than the median of earlier trials at the same step."""

    kind: Literal["median"]
    startup: Annotated[int, Field(ge=0)]
    """Finished trials before any is ended early."""
    warmup: Annotated[int, Field(ge=0)]
    """Steps of a trial before it may be ended."""


class Hyperband(Section):
    """Successive halving at several rates; a step is an evaluation, of one seed after the other."""

    kind: Literal["hyperband"]
    reduction: Annotated[int, Field(ge=2)]
    """Of how many trials one goes on."""


class Wilcoxon(Section):
    """A trial ends that is worse than the best one by a signed-rank test over seeds; a step is a finished seed."""

    kind: Literal["wilcoxon"]
    p: Annotated[float, Field(ge=1e-6, le=0.5)]
    """Significance below which it ends."""
    startup: Annotated[int, Field(ge=2)]
    """Seeds before any trial may be ended."""


class Search(Section):
    """A hyperparameter search: trials are arms of a study, laid over one of its arms."""

    name: Name
    """Of the study in the storage."""
    study: Name
    """Study whose task and settings the trials share."""
    arm: str
    """Its arm that a trial's choices are laid over: the default, which constraints and `confirm` compare with."""
    settings: Annotated[tuple[Name, ...], Field(strict=False)]
    """Overlays `variants/settings/<name>.yaml` of the trials alone, over the study's own."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, strict=False)]
    """Runs of one trial; what it came to is their mean."""
    space: Annotated[dict[str, Dimension], Field(min_length=1)]
    """Dotted name of a number, or name of an axis → what it may be."""
    objectives: Annotated[dict[str, Direction], Field(min_length=1)]
    """Logged metric → direction; several give a Pareto front."""
    constraints: dict[str, Constraint]
    """Logged metric → what a trial must not lose."""
    at: Literal["best", "last"]
    """Epoch whose metrics count: the one chosen by `training.select`, or the last."""
    budget: Budget
    retries: Annotated[int, Field(ge=0)]
    """Times a trial is tried again after its process crashed. One whose worker was killed is taken over in any case."""
    sampler: Annotated[TPE | GP | NSGAII | Random | Grid | QMC, Field(discriminator="kind")]
    pruner: Annotated[NoPruner | Median | Hyperband | Wilcoxon, Field(discriminator="kind")]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)} name one twice")
        for name in (*self.objectives, *self.constraints):
            if name.startswith(UNSEEN):
                raise ValueError(f"{name!r} is of the test split, and nothing is chosen by it; take one of validation/")
        if self.pruner.kind != "none" and len(self.objectives) > 1:
            raise ValueError(f"pruner {self.pruner.kind!r} needs a single objective, not {len(self.objectives)}")
        if isinstance(self.pruner, Wilcoxon) and len(self.seeds) <= self.pruner.startup:
            raise ValueError(f"pruner 'wilcoxon' compares over seeds: give more than {self.pruner.startup} of them")
        self._check_space()
        return self

    def _check_space(self) -> None:
        before: dict[str, Dimension] = {}
        for name, one in self.space.items():
            if "." not in name and not (one.choices and all(isinstance(choice, str) for choice in one.choices)):
                raise ValueError(f"space.{name}: an axis is searched by names of overlays: give choices of text")
            for other, values in one.when.items():
                known = before.get(other)
                if known is None or not known.choices:
                    raise ValueError(
                        f"space.{name}.when.{other}: no earlier name of the space with choices"
                        f"{nearest(other, self.space)}"
                    )
                if unknown := [value for value in values if value not in known.choices]:
                    raise ValueError(f"space.{name}.when.{other}: {unknown[0]!r} is none of its choices")
            if self.sampler.kind == "grid" and not one.choices and not one.whole and one.step is None:
                raise ValueError(f"space.{name}: a grid has no end of numbers here: give a step, or choices")
            before[name] = one


def exists(one: Dimension, chosen: Mapping[str, Any]) -> bool:
    """Whether a name of the space exists under what was chosen before it."""
    return all(name in chosen and chosen[name] in values for name, values in one.when.items())


def corners(search: Search) -> Iterator[dict[str, Any]]:
    """Assignments that between them try every name at its bounds and at each choice under every condition it meets.

    All combinations of the choices that conditions ask for; within each, the others vary one at a time.
    """
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
        ends = {name: _ends(one) for name, one in search.space.items() if name not in asked and exists(one, chosen)}
        for at in range(max([len(values) for values in ends.values()], default=1)):
            yield chosen | {name: values[min(at, len(values) - 1)] for name, values in ends.items()}


def _ends(one: Dimension) -> tuple[Any, ...]:
    return one.choices or one.bounds
