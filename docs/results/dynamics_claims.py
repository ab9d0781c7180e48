"""The published claims about shares of the allocation, each with intervals and a verdict, for dynamics.md."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from dynamics_stored import ATTENTION, CONFIDENCE, FEED_FORWARD, SHOWN, Lines, called, head, interval, number, stored
from failed import beside
from numpy.typing import NDArray

from isoscope.platform.statistics.paired import Interval, in_family, judge, paired_t, two_way_interval

POWER, MARGIN, RELATIVE_MARGIN = 0.8, 0.01, 0.1
"""Margins of differences of shares or cosines, and of differences over the mean of both sides."""


class Shares(NamedTuple):
    """A run's shares of the change of the loss: on the fixed set, by fold `[groups, 8]`; by the minibatch estimator."""

    fixed: pd.DataFrame
    minibatch: pd.DataFrame


def shares(part: str) -> dict[str, dict[int, Shares]]:
    """Return arm → seed → shares, rows (stack, layer, component).

    A share is an allocation over the sum of all allocations of the run; a positive share helps. A fold's number is
    `share + (fold − share · fold's total) / total`: the ratio's linear form (as `training.allocation.over_folds`,
    Cochran 1977). The folds' mean is the share of the whole set, and what moves all groups of a fold alike is no noise.
    """
    folds, batch = stored(part, "folds"), stored(part, "minibatch")
    folds = folds[folds["set"] == SHOWN]
    names = [name for name in folds if name.startswith("fold_")]
    keys = ["stack", "layer", "component"]
    found: dict[str, dict[int, Shares]] = {}
    for (arm, seed), own in folds.groupby(["arm", "seed"], sort=False):
        of_batch = batch[(batch["arm"] == arm) & (batch["seed"] == seed)].set_index(keys)[["nats"]]
        of_folds, total = own.set_index(keys)[names], own["value"].sum()
        share = of_folds.mean(axis=1) / total
        fixed = (of_folds - share.to_numpy()[:, None] * of_folds.sum().to_numpy()) / total
        fixed = fixed.add(share, axis=0)
        found.setdefault(arm, {})[int(seed)] = Shares(fixed, of_batch / of_batch["nats"].sum())
    return found


def of(table: pd.DataFrame, *names: str, stacks: Sequence[str] = (), layers: Sequence[int] = ()) -> NDArray[np.float64]:
    """Return the sum over groups of these components, of these stacks and layers (all by default), per column."""
    index = table.index.to_frame()
    chosen = index["component"].isin(names)
    if stacks:
        chosen &= index["stack"].isin(stacks)
    if layers:
        chosen &= index["layer"].isin(layers)
    found: NDArray[np.float64] = table[chosen].to_numpy(dtype=float).sum(0)
    return found


class Groups(NamedTuple):
    """Some components, of some stacks and layers (all by default)."""

    names: Sequence[str]
    stacks: Sequence[str] = ()
    layers: Sequence[int] = ()

    def of(self, table: pd.DataFrame) -> NDArray[np.float64]:
        """Return their sum per column; the mean per layer, if layers are given."""
        return of(table, *self.names, stacks=self.stacks, layers=self.layers) / max(1, len(self.layers))


class Claim(NamedTuple):
    """A published claim for one arm of the part `own`: the first groups have more than the second."""

    text: str
    arm: str
    more: Groups
    less: Groups
    per_parameter: bool = False
    per_component: bool = False
    """Compare the mean of each side's components, each summed over its layers; by default their sums."""


ARMS = ("masked-additive", "causal-additive", "translation-additive")
_FEED_FORWARD, _ATTENTION, _WORDS = Groups(FEED_FORWARD), Groups(ATTENTION), Groups(("emb",))
_SELF_ATTENTION = Groups(ATTENTION, ("enc", "dec"))
_ONE = "a feed-forward component − an attention component"
PUBLISHED = (
    *(Claim(f"{called(arm)}: {_ONE}", arm, _FEED_FORWARD, _ATTENTION, per_component=True) for arm in ARMS),
    Claim(
        "MT: a feed-forward − a self-attention component", ARMS[2], _FEED_FORWARD, _SELF_ATTENTION, per_component=True
    ),
)
"""The published claim in its own terms: the mean of W1 and W2 minus the mean of query, key, value and out."""
CLAIMS = (
    *(Claim(f"{called(arm)}: feed-forward − attention", arm, _FEED_FORWARD, _ATTENTION) for arm in ARMS),
    Claim("MT: feed-forward − self-attention", ARMS[2], _FEED_FORWARD, _SELF_ATTENTION),
    *(Claim(f"{called(arm)}: feed-forward − word table", arm, _FEED_FORWARD, _WORDS) for arm in ARMS),
)
"""The same sides as sums, and the word table, which is in no layer."""
_LAYERS = {  # arm → stack and layers of its feed-forward blocks, and the stacks of the attention in these layers
    "masked-additive": (("", "enc", 4, ("enc",)),),
    "causal-additive": (("", "dec", 4, ("dec",)),),
    "translation-additive": ((", encoder", "enc", 2, ("enc",)), (", decoder", "dec", 2, ("dec", "cross"))),
}
BY_LAYER = tuple(
    Claim(
        f"{called(arm)}{title}, layer {layer + 1}",
        arm,
        Groups(FEED_FORWARD, (stack,), (layer,)),
        Groups(ATTENTION, beside, (layer,)),
        per_component=True,
    )
    for arm, stacks in _LAYERS.items()
    for title, stack, count, beside in stacks
    for layer in range(count)
)
"""The published claim within each layer."""
RELATIVE = (
    *(
        Claim(f"{called(arm)}: feed-forward − attention, per parameter", arm, _FEED_FORWARD, _ATTENTION, True)
        for arm in ARMS
    ),
    *(
        Claim(
            f"{called(arm)}: feed-forward of the upper − the lower layers{title}",
            arm,
            Groups(FEED_FORWARD, stacks, upper),
            Groups(FEED_FORWARD, stacks, lower),
        )
        for arm, title, stacks, lower, upper in (
            ("masked-additive", "", ("enc",), (0, 1), (2, 3)),
            ("causal-additive", "", ("dec",), (0, 1), (2, 3)),
            ("translation-additive", ", encoder", ("enc",), (0,), (1,)),
            ("translation-additive", ", decoder", ("dec",), (0,), (1,)),
        )
    ),
    Claim(
        "CLM: attention of the middle − the outer layers",
        "causal-additive",
        Groups(ATTENTION, ("dec",), (1, 2)),
        Groups(ATTENTION, ("dec",), (0, 3)),
    ),
)
"""Claims as differences over the mean of both sides, whose shares are too small for one margin."""


class Found(NamedTuple):
    """A claim's numbers: by seed and fold of the sentences on the fixed set, and by seed of the minibatch estimator."""

    text: str
    folds: NDArray[np.float64]
    minibatch: Sequence[float]


def claims_published() -> Lines:
    """Yield the published claim: a feed-forward component has more than an attention component, summed over layers."""
    yield from judged("difference of shares", [_found(claim) for claim in PUBLISHED], MARGIN)


def claims_by_layer() -> Lines:
    """Yield the published claim for each layer, as the difference over the mean of both sides."""
    found = [_found(claim, relative=True) for claim in BY_LAYER]
    yield from judged(f"{_ONE}, over the mean", found, RELATIVE_MARGIN)


def claims() -> Lines:
    """Yield the same sides as sums of their components, and the word table."""
    yield from judged("difference of shares", [_found(claim) for claim in CLAIMS], MARGIN)


def claims_relative() -> Lines:
    """Yield the claims about layers and about parameters, as differences over the mean of both sides."""
    yield from judged("difference over the mean", [_found(claim, relative=True) for claim in RELATIVE], RELATIVE_MARGIN)


def _found(claim: Claim, *, relative: bool = False) -> Found:
    runs = list(shares("own")[claim.arm].values())
    sizes = [float(len(side.names)) if claim.per_component else 1.0 for side in (claim.more, claim.less)]
    if claim.per_parameter:
        counts = parameters(claim.arm)
        sizes = [float(side.of(counts)[0]) for side in (claim.more, claim.less)]

    def values(table: pd.DataFrame) -> NDArray[np.float64]:
        more, less = (side.of(table) / size for side, size in zip((claim.more, claim.less), sizes, strict=True))
        return (more - less) / (np.mean(more + less) / 2 if relative else 1.0)

    folds = np.stack([values(one.fixed) for one in runs])
    return Found(claim.text, folds, [float(values(one.minibatch)[0]) for one in runs])


def parameters(arm: str) -> pd.DataFrame:
    """Return the number of parameters of each stack, layer and component of an arm of the part `own`."""
    table = stored("own", "allocated")
    own = table[(table["arm"] == arm) & (table["level"] == "block") & (table["set"] == SHOWN)]
    return own[own["seed"] == own["seed"].min()].set_index(["stack", "layer", "component"])[["parameters"]]


def likeness() -> Lines:
    """Yield whether a stack of MT is more like MLM or CLM of its depth: differences of cosines of profiles.

    A profile: shares of components × layers of a stack. Runs of the same seed are paired.
    """
    translation, single = shares("own")["translation-additive"], shares("depth")
    both = [seed for seed in single["masked-additive"] if seed in single["causal-additive"] and seed in translation]
    found = []
    for stack, text, like, unlike in (
        ("enc", "MT's encoder: cosine with MLM − with CLM", "masked-additive", "causal-additive"),
        ("dec", "MT's decoder: cosine with CLM − with MLM", "causal-additive", "masked-additive"),
    ):
        fixed, minibatch = (
            np.stack(
                [
                    _cosine(getattr(translation[seed], kind), getattr(single[like][seed], kind), stack)
                    - _cosine(getattr(translation[seed], kind), getattr(single[unlike][seed], kind), stack)
                    for seed in both
                ]
            )
            for kind in Shares._fields
        )
        found.append(Found(text, fixed, list(minibatch[:, 0])))
    yield from judged("difference of cosines", found, MARGIN)


def _cosine(both: pd.DataFrame, single: pd.DataFrame, stack: str) -> NDArray[np.float64]:
    """Return the cosine of the profiles of an encoder-decoder's stack and of a model of one stack, by jackknife folds.

    Noise of the sentences pulls a cosine towards 0, more for a profile of few predicted tokens. The pseudo-values
    `F · c − (F − 1) · c₋f`, with c₋f from all folds but f, have a mean without most of this bias. A single column,
    which has no folds, has its plain cosine.
    """
    profiles = []
    for table, own in ((both, stack), (single, None)):
        index = table.index.to_frame()
        chosen = (index["layer"] >= 0) & ((index["stack"] == own) if own else True)
        profiles.append(table[chosen].droplevel("stack").sort_index().to_numpy(dtype=float))
    one, other = profiles
    folds = one.shape[1]
    whole = _cosines(one.mean(1, keepdims=True), other.mean(1, keepdims=True))
    if folds == 1:
        return whole
    without = ((table.sum(1, keepdims=True) - table) / (folds - 1) for table in (one, other))
    return folds * whole - (folds - 1) * _cosines(*without)


def _cosines(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine of each column with its counterpart."""
    found: NDArray[np.float64] = (one * other).sum(0) / np.sqrt((one**2).sum(0) * (other**2).sum(0))
    return found


def judged(title: str, claims: Sequence[Found], margin: float) -> Lines:
    """Yield each claim with its intervals and verdict on the fixed set, and its mean with the minibatch estimator.

    A claim says that a number is above 0. p by Holm over the table. Over sentences: the eight folds of the set.
    """
    yield from head(title, *VERDICT, "minibatch estimator")
    for claim, cells in zip(claims, verdicts([claim.folds for claim in claims], margin), strict=True):
        yield f"| {claim.text} | {' | '.join((*cells, interval(claim.minibatch)))} |"


VERDICT = ("seeds", "mean", "over seeds", "over seeds and sentences", "p (Holm)", "detectable", "verdict")


def verdicts(
    values: Sequence[NDArray[np.float64]], margin: float, *, above: Sequence[Sequence[float]] | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield the cells `VERDICT` of numbers by seed and sentence `[seeds, sentences]`; p by Holm over all."""
    over = [two_way_interval(one, confidence=CONFIDENCE) for one in values]
    found = verdict_cells([list(one.mean(1)) for one in values], [margin] * len(values), two_way=over, above=above)
    for both, (about, rest) in zip(over, found, strict=True):
        yield (*about, bounds(both), *rest)


def verdict_cells(
    values: Sequence[Sequence[float]],
    margins: Sequence[float],
    *,
    two_way: Sequence[Interval | None] | None = None,
    above: Sequence[Sequence[float]] | None = None,
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield for each number by seed: seeds, mean and interval; and p by Holm, detectable effect and verdict.

    `two_way`: intervals over seeds and sentences, of numbers that are means over sentences. `above`: by how much the
    sides of each difference are above chance, of numbers that have a chance.
    """
    tests = [paired_t(list(one), confidence=CONFIDENCE) for one in values]
    family = in_family(tests, confidence=CONFIDENCE, power=POWER)
    for place, (test, (p, detectable), margin) in enumerate(zip(tests, family, margins, strict=True)):
        over = two_way[place] if two_way else None
        options: dict[str, Any] = {"confidence": CONFIDENCE, "margin": margin, "items": two_way is not None}
        options |= {"above": above[place]} if above else {}
        verdict = judge(test, over, p_holm=p, detectable=detectable, **options)
        opposite = "the opposite " * (verdict.word == "holds" and test.mean < 0)
        chances = (number(np.nan if one is None else one) for one in (p, detectable))
        word = f"{opposite}*{verdict.word}*: {verdict.reason}{beside(list(values[place]))}"
        yield (str(test.n), number(test.mean, 3, True), bounds(test.interval)), (*chances, word)


def bounds(found: Interval | None) -> str:
    """Format an interval; a dash for none."""
    return "–" if found is None else f"[{number(found.low, 3, True)}, {number(found.high, 3, True)}]"
