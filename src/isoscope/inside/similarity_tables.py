"""Every layer of one space against every layer of another: similarities with null and interval, as a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from isoscope.data.word_table import WordTable
from isoscope.geometry.cross_products import group_numbers
from isoscope.geometry.moments import Ints, within_classes
from isoscope.geometry.neighbour_similarity import RSA, Neighbours
from isoscope.geometry.pair_grid import PairSide, pair_similarities
from isoscope.geometry.sentence_permutations import exchangeable, permuted
from isoscope.geometry.similarity import CCA, CKA, PWCCA, SVCCA, HeldOutCCA, Procrustes, Similarity
from isoscope.geometry.similarity_grid import Side, Values, similarities
from isoscope.inside.space import Space
from isoscope.inside.word_states import WORD_TABLE
from isoscope.statistics.delete_a_group import delete_a_group

GROUPS = 20
"""Groups of sentences of the jackknife."""
WHOLE, BY_FORM = "words", "words without their form's mean"


class Sampling(NamedTuple):
    """How many draws a cell has, and which: `items` words of as many sentences for RSA and neighbours."""

    permutations: int
    items: int
    neighbours: int
    components: int | None
    confidence: float
    seed: int


class Compared(NamedTuple):
    """Words on which two spaces are compared: those in sentences that can be exchanged, in the table's order."""

    kept: npt.NDArray[np.bool_]
    sentence: Ints
    form: Ints
    lengths: Ints
    groups: Ints
    left_out: int
    """Sentences whose number of words few others have."""


def compared(table: WordTable, kept: npt.NDArray[np.bool_], *, seed: int) -> dict[str, Compared]:
    """Return what is compared, by name: all words `kept` of a table, and those whose form occurs twice or more.

    Both are without sentences of a rare length. Raises `InputError` if fewer than 20 sentences are left.
    """
    forms = np.unique(table.rows["form"].to_numpy(), return_inverse=True)[1]
    recurs = kept & (np.bincount(forms[kept], minlength=forms.max() + 1)[forms] > 1)
    return {WHOLE: _compared(table, kept, seed), BY_FORM: _compared(table, recurs, seed)}


def _compared(table: WordTable, kept: npt.NDArray[np.bool_], seed: int) -> Compared:
    places = np.flatnonzero(kept)
    found = exchangeable(table.sentences[places])
    chosen = np.zeros(len(kept), bool)
    chosen[places[found.rows]] = True
    sentence = table.sentences[chosen]
    form = np.unique(table.rows["form"].to_numpy()[chosen], return_inverse=True)[1]
    groups = group_numbers(sentence, GROUPS, seed=seed)
    return Compared(chosen, sentence, form, found.lengths, groups, found.left_out)


def similarity_table(one: Space, other: Space, on: Mapping[str, Compared], sampling: Sampling) -> pd.DataFrame:
    """Return a row per pair of layers, measure and kind of words.

    Columns: layer and other_layer (see `WordStates`), of (`words`, or words less the mean of their form, so that spaces are
    not alike because both know which word it is), measure, value, low, high (jackknife over groups of sentences),
    without (values without each group), null, null_sd (sentences exchanged), adjusted ((value − null)/(1 − null)),
    n (words, or items), d and other_d, and why, if there is no value.
    """
    rows: list[dict[str, Any]] = []
    for of, words in on.items():
        mine, others = (
            [number for number in space.layers if not (of == BY_FORM and number == WORD_TABLE)]  # words of a form agree
            for space in (one, other)
        )
        theirs = {number: _Layer(other, words, of, sampling, number) for number in others}
        for number in mine:
            own = _Layer(one, words, of, sampling, number)
            for there, second in theirs.items():
                about = {"layer": number, "other_layer": there, "of": of, "d": own.width, "other_d": second.width}
                rows += (about | row for row in _cell(own, second, words, sampling))
    return pd.DataFrame(rows)


class _Layer:
    """A layer of a space, prepared for all measures."""

    def __init__(self, space: Space, on: Compared, of: str, sampling: Sampling, number: int) -> None:
        points = space.layer(number, on.kept)
        if of == BY_FORM:
            points = within_classes(points, on.form)
        self.width = points.shape[1]
        self.side = Side(points, on.groups)
        self.items = items(on, sampling)
        self.pairs = PairSide(points[self.items], RSA(), Neighbours(k=sampling.neighbours))


def items(on: Compared, sampling: Sampling) -> Ints:
    """Return rows of words, one of each of `items` sentences at random, in order."""
    random = np.random.default_rng(sampling.seed)
    starts = np.cumsum(on.lengths) - on.lengths
    chosen = np.sort(random.permutation(len(starts))[: sampling.items])
    rows: Ints = starts[chosen] + (random.random(len(chosen)) * on.lengths[chosen]).astype(np.int64)
    return rows


def measures(sampling: Sampling) -> list[Similarity | HeldOutCCA]:
    """Return the measures from cross-products, in the order of the table."""
    options: dict[str, Any] = {"components": sampling.components}
    return [
        *(CKA(), Procrustes(), CCA(**options), SVCCA(), PWCCA(**options), PWCCA(side="other", **options)),
        HeldOutCCA(**options),
    ]


def _cell(one: _Layer, other: _Layer, on: Compared, sampling: Sampling) -> Iterator[dict[str, Any]]:
    halves = on.groups[np.cumsum(on.lengths) - 1] % 2
    draws = range(sampling.permutations)
    places = [permuted(on.lengths, seed=sampling.seed, draw=draw, halves=halves) for draw in draws]
    found = similarities(one.side, other.side, measures(sampling), groups=on.groups, permutations=places)
    for name, values in found.items():
        yield {"measure": name, "n": len(on.sentence)} | _values(values, sampling)
    lengths = np.repeat(on.lengths, on.lengths)[one.items]
    exchanged = [_exchanged(lengths, sampling.seed, draw) for draw in draws]
    groups = np.unique(on.groups[one.items], return_inverse=True)[1]
    options: dict[str, Any] = {"groups": groups, "permutations": exchanged}
    pairs = pair_similarities(one.pairs, other.pairs, RSA(), Neighbours(k=sampling.neighbours), **options)
    for name, values in pairs.items():
        yield {"measure": name, "n": len(one.items)} | _values(values, sampling)


def _exchanged(lengths: Ints, seed: int, draw: int) -> Ints:
    """Return places after a random exchange of items whose sentences have as many words."""
    random, found = np.random.default_rng((seed, draw)), np.arange(len(lengths))
    for length in np.unique(lengths):
        own = np.flatnonzero(lengths == length)
        found[own] = random.permutation(own)
    return found


def _values(found: Values, sampling: Sampling) -> dict[str, Any]:
    low, high = delete_a_group(found.value, found.without, confidence=sampling.confidence) or (None, None)
    null = float(found.null.mean()) if len(found.null) else float("nan")
    sd = float(found.null.std(ddof=1)) if len(found.null) > 1 else float("nan")
    adjusted = (found.value - null) / (1 - null)
    return {
        "value": found.value,
        "low": low,
        "high": high,
        "null": null,
        "null_sd": sd,
        "adjusted": adjusted,
        "why": found.why,
        "without": found.without,
    }


def lacking(table: pd.DataFrame, names: Sequence[str] = ("low", "null")) -> float:
    """Return the share of cells without an interval or a null."""
    return float(table[list(names)].isna().any(axis=1).mean())
