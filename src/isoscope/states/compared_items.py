"""What of two spaces is compared: words, words without the mean of their form, or sentences.

All are of sentences that can be exchanged for others, for the null.
"""

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
from isoscope.states.choices import ROWS, WORD_TABLE, Probe
from isoscope.states.word_space import Space

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

    @property
    def centred(self) -> Ints | None:
        """The classes without whose means the items are, if they are."""
        return self.form if self.of == BY_FORM else None

    def controls(self, rows: Ints) -> list[Floats]:
        """Return distances between items that have nothing to do with context: form, position, sentence length."""
        lengths = pdist(self.length[rows][:, None], "cityblock")
        if self.of == SENTENCES:
            return [lengths]
        return [differ(self.form[rows]), pdist(self.position[rows][:, None], "cityblock"), lengths]

    def layers(self, space: Space) -> list[int]:
        """Return the layers to compare: without its form's mean, a word has nothing left in the word table."""
        return [number for number in space.layers if self.of != BY_FORM or number != WORD_TABLE]

    def points(self, space: Space, layer: int, parts: Ints | None = None) -> Floats:
        """Return the items at a layer, `[items, D]`; 0 where nothing is left without the form's mean.

        `parts` `[items]`: the mean is that of the form in the item's own part, so no part says anything of another.
        """
        points = space.layer(layer, self.kept)
        if self.of == BY_FORM:
            left = within_classes(points, self._forms_of(parts))
            # Where a vector depends on the word alone, what is left is rounding.
            return left if left.var() > NOTHING * points.var() else np.zeros_like(left)
        return sentence_means(points, self.lengths) if self.of == SENTENCES else points

    def _forms_of(self, parts: Ints | None) -> Ints:
        """Return the forms; with `parts`, another number in each of them."""
        return self.form if parts is None else self.form + parts * (self.form.max() + 1)

    def varying(self, parts: Ints) -> Flags:
        """Return which items are not their own mean: those whose form occurs again in their part."""
        if self.of != BY_FORM:
            return np.full(len(parts), True)
        forms = self._forms_of(parts)
        return np.bincount(forms)[forms] > 1

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
        chosen = chosen[_have_another(self.lengths[chosen], self.group[chosen])]
        starts = np.cumsum(self.sizes) - self.sizes
        rows: Ints = starts[chosen] + (random.random(len(chosen)) * self.sizes[chosen]).astype(np.int64)
        return rows

    def sample_for_pairs(self, count: int, *spaces: Space, seed: int) -> Ints:
        """Return the items whose distances are compared, as `sample` does.

        Words less the mean of their form are of different forms: of two of one form, each says what the other is. None
        is 0 at a layer of a space that has others: it has no direction.
        """
        if self.of != BY_FORM:
            return self.sample(count, seed=seed)
        nowhere = np.any([self._nowhere(space, layer) for space in spaces for layer in self.layers(space)], axis=0)
        random, used, found = np.random.default_rng(seed), set[int](), []
        ends = np.cumsum(self.lengths)
        for sentence in random.permutation(len(ends)):
            rows = np.arange(ends[sentence] - self.lengths[sentence], ends[sentence])
            if free := [row for row in rows if not nowhere[row] and int(self.form[row]) not in used]:
                found.append(int(random.choice(free)))
                used.add(int(self.form[found[-1]]))
            if len(found) == count:
                break
        chosen: Ints = np.sort(np.array(found, np.int64))
        return chosen[_have_another(self.length[chosen], self.groups[chosen])]

    def _nowhere(self, space: Space, layer: int) -> Flags:
        """Return which items are 0 at a layer where others are not."""
        there = np.abs(self.points(space, layer)).max(axis=1) > 0
        return ~there & there.any()


def _have_another(lengths: Ints, groups: Ints) -> Flags:
    """Return which of some sentences have the length of another in their half of the groups."""
    strata = 2 * lengths + groups % 2
    return np.bincount(strata)[strata] > 1


def compared_items(table: WordTable, kept: Flags, *, probe: Probe, seed: int) -> list[ComparedItems]:
    """Return what is compared of the words `kept`: words, and those whose form occurs again; or sentences; or rows.

    All are without sentences of a rare length. Words whose form occurs again are left out if their sentences are too
    few. Raises `InputError` if fewer than 20 sentences are left of all words.
    """
    alone = {"sentences": SENTENCES, ROWS: ROWS}.get(probe, WHOLE)
    found = {alone: _items(alone, table, kept, seed)}
    if alone == WHOLE:
        found[BY_FORM] = _recurring(table, kept, seed)
    if found[alone] is None:
        sentences, words = ("groups", "rows") if probe == ROWS else ("sentences", "words")
        raise InputError(
            f"text: fewer than {GROUPS} {sentences} have as many {words} as {FEWEST_ALIKE - 1} others; give more"
        )
    return [one for one in found.values() if one is not None]


def _recurring(table: WordTable, kept: Flags, seed: int) -> ComparedItems | None:
    """Return the words of forms that occur at least twice among them: without some sentences, a form may be alone."""
    forms = np.unique(table.rows["form"].to_numpy(), return_inverse=True)[1]
    left_out = 0
    while True:
        twice = np.bincount(forms[kept], minlength=forms.max() + 1)[forms] > 1
        found = _items(BY_FORM, table, kept & twice, seed)
        if found is None:
            return None
        left_out += found.left_out
        if (np.bincount(found.form) > 1).all():
            return found._replace(left_out=left_out)
        kept = found.kept


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
