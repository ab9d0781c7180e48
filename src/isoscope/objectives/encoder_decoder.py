"""What objectives on an encoder-decoder share: the decoder predicts a text from what the encoder reads."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from isoscope.data.chosen_tokens import TokenDraws
from isoscope.objectives import Batch, Indices, Place, Task, owners_of
from isoscope.objectives.language import LanguageModel, Sides, padded


class Texts(NamedTuple):
    """What the encoder reads and the decoder writes, a text per row, each with its first and last special token."""

    read: list[Indices]
    written: list[Indices]


class EncoderDecoder(LanguageModel):
    """Base class: predict every token of a written text and its end, from the read text and the tokens before it.

    A subclass says which texts are read and written. `read`: tokens of the read texts, by split.
    """

    wiring = "translation"
    states = "encoder_hidden_states"
    predicted, given = "decoder_predicted", "decoder_input_ids"

    def __init__(
        self, texts: Sides, task: Task, *, read: Mapping[str, Indices], truncated: Mapping[str, int], tied: bool
    ) -> None:
        self.target = self.splits = texts.target
        self.read = read
        lengths = {split: one + self._written_lengths(split) for split, one in read.items()}
        super().__init__(texts, lengths, truncated, task, tied=tied)
        self.draws = {split: TokenDraws(one.lengths, seed=task.seed) for split, one in self.target.items()}

    def rows_of(self, split: str, rows: Indices, epoch: int | None) -> Texts:
        """Return the texts of rows; `epoch` seeds random parts, None gives the same texts every time."""
        raise NotImplementedError

    def batch(self, split: str, rows: Indices, epoch: int | None) -> Batch:
        pad = self.texts.specials.pad
        texts = self.rows_of(split, rows, epoch)
        ids, mask = padded(texts.read, pad)
        given, given_mask = padded([one[:-1] for one in texts.written], pad)
        following, _ = padded([one[1:] for one in texts.written], pad)
        predicted = np.flatnonzero(given_mask)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "decoder_input_ids": given,
            "decoder_attention_mask": given_mask,
            "decoder_predicted": predicted,
            "labels": following.ravel()[predicted],
        }

    def weight(self, split: str, rows: Indices, epoch: int | None) -> float:
        return float(self._written_lengths(split)[rows].sum())

    def owners(self, split: str, rows: Indices, place: Place) -> tuple[Indices, None]:
        return owners_of(self.read[split][rows], place), None

    def _written_lengths(self, split: str) -> Indices:
        """Return how many tokens of each row the decoder reads, and predicts."""
        return self.target[split].lengths - 1
