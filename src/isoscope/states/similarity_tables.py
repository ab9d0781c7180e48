"""Every layer of one space against every layer of another, on the same items, as a table.

The items are words, words without the mean of their form, or sentences. Each similarity has its null and interval.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.spatial.distance import pdist

from isoscope.base.errors import InputError
from isoscope.data.arrays import Flags
from isoscope.data.word_table import WordTable
from isoscope.geometry.array_kinds import placed
from isoscope.geometry.contextuality import NOTHING
from isoscope.geometry.moments import Floats, Ints, within_classes
from isoscope.geometry.neighbour_similarity import RSA, Neighbours, differ
from isoscope.geometry.sentence_permutations import (
    FEWEST_ALIKE,
    GROUPS,
    exchangeable,
    exchanged,
    permuted,
    sentence_groups,
)
from isoscope.geometry.similarity import CCA, CKA, PWCCA, SVCCA, HeldOutCCA, Procrustes, Similarity
from isoscope.geometry.similarity_grid import (
    PARTIAL,
    PairSide,
    Side,
    Values,
    missing,
    pair_similarities,
    similarities,
)
from isoscope.platform.statistics.delete_a_group import delete_a_group
from isoscope.states.choices import ROWS, WORD_TABLE, Probe, SpaceSettings
from isoscope.states.word_space import Space

MOST_LACKING = 0.05
WHOLE, BY_FORM, SENTENCES = "words", "words without their form's mean", "sentences"


class ComparedItems(NamedTuple):
    """Items of sentences that can be exchanged for others, in the word table's order."""

    of: str
    """`WHOLE`; `BY_FORM`: words less the mean of their form; `SENTENCES`: the means of their words; `ROWS`."""
    kept: Flags
    """Which words of the table are used."""
    form: Ints
    lengths: Ints
    """Words of each sentence."""
    position: Ints
    group: Ints
    """Group of each sentence, for the jackknife."""
    left_out: int
    """Sentences of a length that too few others have."""

    @property
    def sizes(self) -> Ints:
        """The items of each sentence."""
        return np.ones_like(self.lengths) if self.of == SENTENCES else self.lengths

    @property
    def groups(self) -> Ints:
        """The group of each item."""
        return np.repeat(self.group, self.sizes)

    @property
    def length(self) -> Ints:
        """The words of each item's sentence."""
        return np.repeat(self.lengths, self.sizes)

    def controls(self, rows: Ints) -> list[Floats]:
        """Return distances between items that have nothing to do with context: form, position, sentence length."""
        lengths = pdist(self.length[rows][:, None], "cityblock")
        if self.of == SENTENCES:
            return [lengths]
        return [differ(self.form[rows]), pdist(self.position[rows][:, None], "cityblock"), lengths]

    def layers(self, space: Space) -> list[int]:
        """Return the layers to compare: without its form's mean, a word has nothing left in the word table."""
        return [number for number in space.layers if self.of != BY_FORM or number != WORD_TABLE]

    def points(self, space: Space, layer: int) -> Floats:
        """Return the items at a layer, `[items, D]`; 0 where nothing is left without the form's mean."""
        points = space.layer(layer, self.kept)
        if self.of == BY_FORM:
            left = within_classes(points, self.form)
            # Where a vector depends on the word alone, what is left is rounding.
            return left if left.var() > NOTHING * points.var() else np.zeros_like(left)
        return sentence_means(points, self.lengths) if self.of == SENTENCES else points

    def places(self, *, seed: int, draw: int) -> Ints:
        """Return places of the items with sentences exchanged for others of their length, in halves of the groups."""
        if self.of == SENTENCES:
            return self.places_of(np.arange(len(self.lengths)), seed=seed, draw=draw)
        return permuted(self.lengths, seed=seed, draw=draw, halves=self.group % 2)

    def places_of(self, rows: Ints, *, seed: int, draw: int) -> Ints:
        """Return places of items of different sentences, exchanged for others of their length, in halves."""
        return exchanged(np.column_stack([self.length[rows], self.groups[rows] % 2]), seed=seed, draw=draw)

    def sample(self, count: int, *, seed: int) -> Ints:
        """Return an item each of `count` sentences at random, in order.

        A sentence whose length no other sampled sentence of its half has is left out: it could not be exchanged.
        """
        random = np.random.default_rng(seed)
        chosen = np.sort(random.permutation(len(self.lengths))[:count])
        strata = 2 * self.lengths[chosen] + self.group[chosen] % 2
        chosen = chosen[np.bincount(strata)[strata] > 1]
        starts = np.cumsum(self.sizes) - self.sizes
        rows: Ints = starts[chosen] + (random.random(len(chosen)) * self.sizes[chosen]).astype(np.int64)
        return rows


def compared_items(table: WordTable, kept: Flags, *, probe: Probe, seed: int) -> list[ComparedItems]:
    """Return what is compared of the words `kept`: words, and those whose form occurs again; or sentences; or rows.

    All are without sentences of a rare length. Words whose form occurs again are left out if their sentences are too
    few. Raises `InputError` if fewer than 20 sentences are left of all words.
    """
    forms = np.unique(table.rows["form"].to_numpy(), return_inverse=True)[1]
    recurs = kept & (np.bincount(forms[kept], minlength=forms.max() + 1)[forms] > 1)
    alone: dict[str, dict[str, Flags]] = {"sentences": {SENTENCES: kept}, ROWS: {ROWS: kept}}
    asked = alone.get(probe, {WHOLE: kept, BY_FORM: recurs})
    found = {of: _items(of, table, own, seed) for of, own in asked.items()}
    if found[next(iter(asked))] is None:
        sentences, words = ("groups", "rows") if probe == ROWS else ("sentences", "words")
        raise InputError(
            f"text: fewer than {GROUPS} {sentences} have as many {words} as {FEWEST_ALIKE - 1} others; give more"
        )
    return [one for one in found.values() if one is not None]


def _items(of: str, table: WordTable, kept: Flags, seed: int) -> ComparedItems | None:
    places = np.flatnonzero(kept)
    found = exchangeable(table.sentences[places])
    if len(found.lengths) < GROUPS:
        return None
    chosen = np.zeros(len(kept), bool)
    chosen[places[found.rows]] = True
    sentences: dict[str, Any] = {"lengths": found.lengths, "left_out": found.left_out}
    return ComparedItems(
        of,
        chosen,
        form=np.unique(table.rows["form"].to_numpy()[chosen], return_inverse=True)[1],
        position=table.rows["position"].to_numpy(np.int64)[chosen],
        group=sentence_groups(found.lengths, GROUPS, seed=seed),
        **sentences,
    )


def sentence_means(points: Floats, lengths: Ints) -> Floats:
    """Return the mean of each sentence's words, `[sentences, D]`; words stand sentence by sentence."""
    sums: Floats = np.add.reduceat(points, np.cumsum(lengths) - lengths)
    return sums / lengths[:, None]


def similarity_table(one: Space, other: Space, on: Sequence[ComparedItems], settings: SpaceSettings) -> pd.DataFrame:
    """Return a row per pair of layers, measure and kind of items.

    Columns: layer and other_layer (see `WordStates`), of (see `ComparedItems`), measure, value, low, high (jackknife
    over groups of sentences), without (values without each group), null, null_sd (sentences exchanged), adjusted
    ((value − null)/(1 − null)), n (items, in two halves for cca_held_out and neighbours), d and other_d, and why, if
    there is no value.
    """
    rows: list[dict[str, Any]] = []
    for items in on:
        theirs = {layer: PreparedLayer(other, items, settings, layer, 1) for layer in items.layers(other)}
        for layer in items.layers(one):
            own = PreparedLayer(one, items, settings, layer, 0)
            for there, second in theirs.items():
                about = {"layer": layer, "other_layer": there, "of": items.of, "d": own.width, "other_d": second.width}
                rows += (about | row for row in layer_similarities(own, second, items, settings))
    return pd.DataFrame(rows)


def equal_layers(
    one: Space, other: Space, on: ComparedItems, settings: SpaceSettings, names: Collection[str]
) -> pd.DataFrame:
    """Return the rows of `similarity_table` of layers with equal number, for measures from cross-products."""
    chosen = [measure for measure in measures(settings) if measure.name in names]
    rows: list[dict[str, Any]] = []
    for layer in on.layers(one):
        if layer in other.layers:
            first, second = (
                Side(placed(on.points(space, layer), settings.device), on.groups) for space in (one, other)
            )
            rows += ({"layer": layer, "of": on.of} | row for row in _of_products(first, second, chosen, on, settings))
    return pd.DataFrame(rows)


class PreparedLayer:
    """A layer of a space on the device, prepared for all measures.

    `seed`: of the first space and of the second, see `Neighbours`.
    """

    def __init__(self, space: Space, on: ComparedItems, settings: SpaceSettings, layer: int, seed: int) -> None:
        points = on.points(space, layer)
        self.width, self.items = points.shape[1], on.sample(settings.items, seed=settings.seed)
        self.empty = not points.any()
        if self.empty:
            return
        points = placed(points, settings.device)
        self.side = Side(points, on.groups)
        near = Neighbours(k=settings.neighbours)
        options: dict[str, Any] = {"groups": on.groups[self.items], "seed": seed}
        self.pairs = PairSide(points[self.items], RSA(), near, on.controls(self.items), **options)


def measures(settings: SpaceSettings) -> list[Similarity | HeldOutCCA]:
    """Return the measures from cross-products, in the order of the table."""
    options: dict[str, Any] = {"components": settings.components}
    return [
        *(CKA(), Procrustes(), CCA(**options), SVCCA(), PWCCA(**options), PWCCA(side="other", **options)),
        HeldOutCCA(**options),
    ]


def layer_similarities(
    one: PreparedLayer, other: PreparedLayer, on: ComparedItems, settings: SpaceSettings
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `similarity_table` of a pair of layers, without the columns that name them."""
    if one.empty or other.empty:
        names = (*(measure.name for measure in measures(settings)), RSA.name, PARTIAL, Neighbours.name)
        nothing = missing("a layer has no variance within a form")
        yield from _rows(dict.fromkeys(names, nothing), len(on.groups), settings)
        return
    yield from _of_products(one.side, other.side, measures(settings), on, settings)
    places = [on.places_of(one.items, seed=settings.seed, draw=draw) for draw in range(settings.permutations)]
    options: dict[str, Any] = {"groups": on.groups[one.items], "permutations": places}
    pairs = pair_similarities(one.pairs, other.pairs, **options)
    yield from _rows(pairs, len(one.items), settings)


def _of_products(
    one: Side, other: Side, chosen: Sequence[Similarity | HeldOutCCA], on: ComparedItems, settings: SpaceSettings
) -> Iterator[dict[str, Any]]:
    """Yield a row per measure from cross-products."""
    places = [on.places(seed=settings.seed, draw=draw) for draw in range(settings.permutations)]
    found = similarities(one, other, chosen, groups=on.groups, permutations=places)
    yield from _rows(found, len(on.groups), settings)


def _rows(found: Mapping[str, Values], n: int, settings: SpaceSettings) -> Iterator[dict[str, Any]]:
    """Yield a row per measure, of `n` items."""
    for name, of in found.items():
        low, high = delete_a_group(of.value, of.without, confidence=settings.confidence) or (None, None)
        null = float(of.null.mean()) if len(of.null) else float("nan")
        yield {
            "measure": name,
            "n": n,
            "value": of.value,
            "low": low,
            "high": high,
            "null": null,
            "null_sd": float(of.null.std(ddof=1)) if len(of.null) > 1 else float("nan"),
            "adjusted": (of.value - null) / (1 - null) if null < 1 else float("nan"),  # else all sentences are alike
            "why": of.why,
            "without": of.without,
        }


def check_complete(table: pd.DataFrame) -> None:
    """Raise `InputError` if more than `MOST_LACKING` of the cells with a value have no interval or no null."""
    known = table[table["value"].notna()]
    share = float(known[["low", "null"]].isna().any(axis=1).mean()) if len(known) else 0.0
    if share > MOST_LACKING:
        raise InputError(f"similarity: {share:.0%} of the cells have no interval or no null; give more text")
