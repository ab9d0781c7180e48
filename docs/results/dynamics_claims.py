"""The published claims about shares of the allocation, each with intervals and a verdict, for dynamics.md."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from dynamics_shares import ATTENTION, FEED_FORWARD, Shares, called, on_fixed_set, shares
from judged import MARGIN, VERDICT, of_items, verdicts
from written import Table, interval

from isoscope.platform.statistics.delete_a_group import pseudo_values
from isoscope.studies.dynamics.allocated_runs import BLOCK

RELATIVE = 0.1
"""Margin of differences over the mean of both sides."""


class Groups(NamedTuple):
    """Some components, of some stacks and layers (all by default)."""

    names: Sequence[str]
    stacks: Sequence[str] = ()
    layers: Sequence[int] = ()

    def of(self, table: pd.DataFrame) -> np.ndarray:
        """Return their sum per column; the mean per layer, if layers are given."""
        index = table.index.to_frame()
        chosen = index["component"].isin(self.names)
        for level, wanted in (("stack", self.stacks), ("layer", self.layers)):
            chosen &= index[level].isin(wanted) | (not wanted)
        return table[chosen].to_numpy(dtype=float).sum(0) / max(1, len(self.layers))


class Claim(NamedTuple):
    """A published claim for one arm of the part `own`: the first groups have more than the second."""

    text: str
    arm: str
    more: Groups
    less: Groups
    per_parameter: bool = False
    per_component: bool = False
    """Compare the mean of each side's components, each summed over its layers; by default their sums."""


class Found(NamedTuple):
    """A claim's numbers: by seed and fold of the sentences on the fixed set, and by seed of the minibatch estimator."""

    text: str
    folds: np.ndarray
    minibatch: Sequence[float]


def found(claim: Claim, *, relative: bool = False) -> Found:
    """Return the difference of a claim's sides in each run; `relative`: over the mean of both."""
    runs, sides = shares("own")[claim.arm].values(), (claim.more, claim.less)
    sizes = [float(len(side.names)) if claim.per_component else 1.0 for side in sides]
    if claim.per_parameter:
        counts = parameters(claim.arm)
        sizes = [float(side.of(counts)[0]) for side in sides]

    def values(table: pd.DataFrame) -> np.ndarray:
        more, less = (side.of(table) / size for side, size in zip(sides, sizes, strict=True))
        return (more - less) / (np.mean(more + less) / 2 if relative else 1.0)

    folds = np.stack([values(one.fixed) for one in runs])
    return Found(claim.text, folds, [float(values(one.minibatch)[0]) for one in runs])


def parameters(arm: str) -> pd.DataFrame:
    """Return the number of parameters of each stack, layer and component of an arm of the part `own`."""
    table = on_fixed_set("own", "allocated")
    own = table[(table["arm"] == arm) & (table["level"] == "block")]
    return own[own["seed"] == own["seed"].min()].set_index(BLOCK)[["parameters"]]


def claimed(title: str, claims: Sequence[Claim], *, relative: bool = False) -> Table:
    """Return each claim with its verdict on the fixed set, and its mean with the minibatch estimator; a family."""
    return judged(title, [found(claim, relative=relative) for claim in claims], RELATIVE if relative else MARGIN)


def judged(title: str, numbers: Sequence[Found], margin: float) -> Table:
    """Return a row per claim. Over sentences: the eight folds of the set."""
    cells = verdicts([of_items(one.folds, margin=margin) for one in numbers])
    rows = [(one.text, *own, interval(one.minibatch)) for one, own in zip(numbers, cells, strict=True)]
    return Table((title, *VERDICT, "minibatch estimator"), rows)


def likeness() -> Table:
    """Return whether a stack of MT is more like MLM or CLM of its depth: differences of cosines of profiles.

    A profile: shares of components × layers of a stack. Runs of the same seed are paired.
    """
    translation, single = shares("own")[ARMS[2]], shares("depth")
    both = [seed for seed in single[ARMS[0]] if seed in single[ARMS[1]] and seed in translation]

    def nearer(stack: str, seed: int, place: int, like: str, unlike: str) -> np.ndarray:
        to = (cosine(translation[seed][place], single[arm][seed][place], stack) for arm in (like, unlike))
        return next(to) - next(to)

    numbers = []
    for stack, text, *arms in (
        ("enc", "MT's encoder: cosine with MLM − with CLM", ARMS[0], ARMS[1]),
        ("dec", "MT's decoder: cosine with CLM − with MLM", ARMS[1], ARMS[0]),
    ):
        folds, minibatch = (
            np.stack([nearer(stack, seed, place, *arms) for seed in both]) for place in range(len(Shares._fields))
        )
        numbers.append(Found(text, folds, [*minibatch[:, 0]]))
    return judged("difference of cosines", numbers, MARGIN)


def cosine(both: pd.DataFrame, single: pd.DataFrame, stack: str) -> np.ndarray:
    """Return the cosine of the profiles of an encoder-decoder's stack and of a model of one stack, by jackknife folds.

    Noise of the sentences pulls a cosine towards 0, more for a profile of few predicted tokens. The pseudo-values
    `F · c − (F − 1) · c₋f`, with c₋f from all folds but f, have a mean without most of this bias. A single column,
    which has no folds, has its plain cosine.
    """
    own = both[both.index.get_level_values("stack") == stack]
    inside = (table[table.index.get_level_values("layer") >= 0].droplevel("stack") for table in (own, single))
    one, other = (table.sort_index().to_numpy(dtype=float) for table in inside)
    folds = one.shape[1]
    whole = cosines(one.mean(1, keepdims=True), other.mean(1, keepdims=True))
    if folds == 1:
        return whole
    without = ((table.sum(1, keepdims=True) - table) / (folds - 1) for table in (one, other))
    return pseudo_values(whole, cosines(*without))


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the cosine of each column with its counterpart."""
    return (one * other).sum(0) / np.sqrt((one**2).sum(0) * (other**2).sum(0))


ARMS = ("masked-additive", "causal-additive", "translation-additive")
_FEED_FORWARD, _ATTENTION = Groups(FEED_FORWARD), Groups(ATTENTION)
_SELF_ATTENTION = Groups(ATTENTION, ("enc", "dec"))
ONE = "a feed-forward component − an attention component"
PUBLISHED = (
    *(Claim(f"{called(arm)}: {ONE}", arm, _FEED_FORWARD, _ATTENTION, per_component=True) for arm in ARMS),
    Claim(
        "MT: a feed-forward − a self-attention component", ARMS[2], _FEED_FORWARD, _SELF_ATTENTION, per_component=True
    ),
)
"""The published claim in its own terms: the mean of W1 and W2 minus the mean of query, key, value and out."""
CLAIMS = (
    *(Claim(f"{called(arm)}: feed-forward − attention", arm, _FEED_FORWARD, _ATTENTION) for arm in ARMS),
    Claim("MT: feed-forward − self-attention", ARMS[2], _FEED_FORWARD, _SELF_ATTENTION),
    *(Claim(f"{called(arm)}: feed-forward − word table", arm, _FEED_FORWARD, Groups(("emb",))) for arm in ARMS),
)
"""The same sides as sums, and the word table, which is in no layer."""
_STACKS = (  # arm, title, stack and layers of its feed-forward blocks, and the stacks of the attention in these layers
    (ARMS[0], "", "enc", 4, ("enc",)),
    (ARMS[1], "", "dec", 4, ("dec",)),
    (ARMS[2], ", encoder", "enc", 2, ("enc",)),
    (ARMS[2], ", decoder", "dec", 2, ("dec", "cross")),
)
BY_LAYER = tuple(
    Claim(
        f"{called(arm)}{title}, layer {layer + 1}",
        arm,
        Groups(FEED_FORWARD, (stack,), (layer,)),
        Groups(ATTENTION, beside, (layer,)),
        per_component=True,
    )
    for arm, title, stack, count, beside in _STACKS
    for layer in range(count)
)
"""The published claim within each layer."""
RELATIVE_CLAIMS = (
    *(
        Claim(f"{called(arm)}: feed-forward − attention, per parameter", arm, _FEED_FORWARD, _ATTENTION, True)
        for arm in ARMS
    ),
    *(
        Claim(
            f"{called(arm)}: feed-forward of the upper − the lower layers{title}",
            arm,
            Groups(FEED_FORWARD, (stack,), range(count // 2, count)),
            Groups(FEED_FORWARD, (stack,), range(count // 2)),
        )
        for arm, title, stack, count, _ in _STACKS
    ),
    Claim(
        "CLM: attention of the middle − the outer layers",
        ARMS[1],
        Groups(ATTENTION, ("dec",), (1, 2)),
        Groups(ATTENTION, ("dec",), (0, 3)),
    ),
)
"""Claims as differences over the mean of both sides, whose shares are too small for one margin."""
