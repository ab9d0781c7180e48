"""Which items two spaces are compared on: words, words without the mean of their form, or sentences."""

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from isoscope.base.errors import InputError
from isoscope.data.arrays import Flags
from isoscope.data.word_table import WordTable
from isoscope.geometry.contextuality import NOTHING
from isoscope.geometry.moments import Floats, Ints, within_classes
from isoscope.geometry.neighbour_similarity import differ
from isoscope.geometry.sentence_permutations import (
    FEWEST_ALIKE,
    GROUPS,
    exchangeable,
    exchanged,
    permuted,
    sentence_groups,
)
from isoscope.states.choices import WORD_TABLE, Probe
from isoscope.states.word_space import Space

WHOLE, BY_FORM, SENTENCES = "words", "words without their form's mean", "sentences"


class ComparedItems(NamedTuple):
    """Items of sentences that can be exchanged for others, in the word table's order."""

    of: str
    """`WHOLE`; `BY_FORM`: words less the mean of their form; `SENTENCES`: the means of their words."""
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
    def groups(self) -> Ints:
        """The group of each item."""
        return self.group if self.of == SENTENCES else np.repeat(self.group, self.lengths)

    @property
    def length(self) -> Ints:
        """The words of each item's sentence."""
        return self.lengths if self.of == SENTENCES else np.repeat(self.lengths, self.lengths)

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
        if self.of == SENTENCES:
            return chosen
        starts = np.cumsum(self.lengths) - self.lengths
        rows: Ints = starts[chosen] + (random.random(len(chosen)) * self.lengths[chosen]).astype(np.int64)
        return rows


def compared_items(table: WordTable, kept: Flags, *, probe: Probe, seed: int) -> list[ComparedItems]:
    """Return what is compared of the words `kept`: words, and those whose form occurs again; or sentences.

    All are without sentences of a rare length. Words whose form occurs again are left out if their sentences are too
    few. Raises `InputError` if fewer than 20 sentences are left of all words.
    """
    forms = np.unique(table.rows["form"].to_numpy(), return_inverse=True)[1]
    recurs = kept & (np.bincount(forms[kept], minlength=forms.max() + 1)[forms] > 1)
    asked = {SENTENCES: kept} if probe == "sentences" else {WHOLE: kept, BY_FORM: recurs}
    found = {of: _items(of, table, own, seed) for of, own in asked.items()}
    if found[next(iter(asked))] is None:
        raise InputError(
            f"text: fewer than {GROUPS} sentences have as many words as {FEWEST_ALIKE - 1} others; give more text"
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
