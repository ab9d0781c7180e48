"""The words of a translation that are linked to the sampled words of a text: what a second model reads."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isoscope.base.errors import InputError
from isoscope.data.arrays import Indices
from isoscope.data.scripts import check_spaced
from isoscope.data.word_links import learned_links, read_links
from isoscope.data.word_table import WordTable, every_word, words


class Linked(NamedTuple):
    """All words of the translations of a table's sentences, and the row among them of each word's link, −1 for none."""

    table: WordTable
    rows: Indices

    @property
    def digest(self) -> str:
        """sha256 (hex) of the drawn translations."""
        return hashlib.sha256(json.dumps(self.table.texts).encode()).hexdigest()

    @property
    def links(self) -> str:
        """sha256 (hex) of the links."""
        return hashlib.sha256(self.rows.tobytes()).hexdigest()


class Translation(NamedTuple):
    """A translation of each sentence of a text, and a file of links in Pharaoh's format.

    Without a file the links are learned from the sentence pairs. `origin`: file name and column, as text.
    """

    sentences: list[str]
    links: Path | None
    origin: str

    def linked(self, texts: Sequence[str], table: WordTable) -> Linked:
        """Return the words that are linked to those of a table, whose sentences were drawn from `texts`.

        Raises `InputError` if a text lacks its translation, if no word is linked, and if words of the translation are
        not separated by spaces.
        """
        if len(texts) != len(self.sentences):
            raise InputError(
                f"{self.origin}: {len(self.sentences)} sentences for {len(texts)}; fill or drop empty cells"
            )
        check_spaced(self.sentences, self.origin)
        one, other = ([[form for form, _, _ in words(text)] for text in side] for side in (texts, self.sentences))
        links = read_links(self.links, one, other) if self.links else learned_links(one, other)
        starts = np.cumsum([0, *(len(other[number]) for number in table.drawn)])
        first = [dict(reversed(links[number])) for number in table.drawn]
        places = zip(table.sentences.tolist(), table.rows["position"], strict=True)
        rows = np.array([starts[at] + first[at][word] if word in first[at] else -1 for at, word in places], np.int64)
        if (rows < 0).all():
            raise InputError(f"{self.origin}: no word is linked to a word of the text")
        return Linked(every_word([self.sentences[number] for number in table.drawn]), rows)
