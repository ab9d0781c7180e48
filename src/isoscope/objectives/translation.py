"""Translation: an encoder-decoder predicts a text from the same text in another language."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from isoscope import plugins
from isoscope.base.atomic_files import write_text
from isoscope.base.errors import InputError
from isoscope.base.parquet import write_parquet
from isoscope.data.chosen_tokens import TokenDraws
from isoscope.data.corpus import PAIR
from isoscope.data.tokens import Encoded
from isoscope.metrics.translation_scores import GENERATED, bleu, bleu_shares, translation_scores
from isoscope.models.translation import written
from isoscope.objectives import Batch, Indices, Place, Scored, Task, owners_of
from isoscope.objectives.language import LanguageModel, Sides, padded, sides


class Texts(NamedTuple):
    """What the encoder reads and the decoder writes, a text per row, each with its first and last special token."""

    read: list[Indices]
    written: list[Indices]


class EncoderDecoder(LanguageModel):
    """Base class: predict every token of a written text and its end, from the read text and the tokens before it.

    A subclass says which texts are read and written. `read`: tokens of the read texts, by split. `others`: texts beside
    the target that are read.
    """

    wiring = "translation"
    states = "encoder_hidden_states"
    predicted, given = "decoder_predicted", "decoder_input_ids"

    def __init__(
        self, texts: Sides, task: Task, *others: Mapping[str, Encoded], read: Mapping[str, Indices], tied: bool
    ) -> None:
        self.target, self.read = texts.target, read
        lengths = {split: one + self._written_lengths(split) for split, one in read.items()}
        super().__init__(texts, task, texts.target, *others, lengths=lengths, tied=tied)
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


@plugins.objective("translation")
class Translation(EncoderDecoder):
    """Predict the target's tokens and its end, from the source and the target's tokens before them.

    The test split is translated by a beam search of width `beams` (1: greedy), all of it or its first `sentences`.
    `tokenize`: sacrebleu's name for the words of BLEU.
    """

    generated = GENERATED

    def __init__(self, task: Task, *, beams: int, sentences: int | None, tied: bool, tokenize: str) -> None:
        texts = sides(task, masks=False)
        if tuple(task.manifest["columns"]) != PAIR:
            raise InputError("objective.kind: 'translation' needs a task of pairs; set 'masked' or 'causal'")
        bleu(tokenize)  # before training: its packages are installed
        self.beams, self.sentences, self.tokenize = beams, sentences, tokenize
        read = {split: one.lengths for split, one in texts.source.items()}
        super().__init__(texts, task, texts.source, read=read, tied=tied)

    def rows_of(self, split: str, rows: Indices, epoch: int | None) -> Texts:
        source, target = self.texts.source[split], self.texts.target[split]
        return Texts([source.ids[row] for row in rows], [target.ids[row] for row in rows])

    def finish(self, model: Any, scored: Scored, folder: Path) -> dict[str, float]:
        """Write predictions.parquet, bleu.json and translations.parquet; return BLEU, chrF and the share of copies.

        BLEU compares with the whole references as they stand in the data. A copy equals its source as the tokenizer
        restores it.
        """
        super().finish(model, scored, folder)
        rows = np.arange(self.size(scored.split))[: self.sentences]
        translated = self.translated(model, scored.split, rows)
        sources = [self._text(self.texts.source[scored.split].ids[row].tolist()) for row in rows]
        references = self.references(scored.split, rows)
        found = translation_scores(translated, sources, references, tokenize=self.tokenize)
        write_text(folder / "bleu.json", json.dumps(found._asdict(), indent=1) + "\n", "table")
        shares = bleu_shares(translated, references, tokenize=self.tokenize)
        columns = {"row": rows, "translation": translated, "bleu_share": shares}
        write_parquet(pd.DataFrame(columns), folder / "translations.parquet")
        return {"bleu": found.bleu, "chrf": found.chrf, "copied": found.copied}

    def translated(self, model: Any, split: str, rows: Indices) -> list[str]:
        """Return the model's translations of `rows`."""

        def of(part: Indices) -> list[str]:
            read = self.rows_of(split, part, None).read
            return [*map(self._text, written(model, read, beams=self.beams, max_length=self.task.max_length))]

        return self.by_row(model, split, rows, of)

    def references(self, split: str, rows: Indices) -> list[str]:
        """Return the texts of `rows` as they stand in the data, neither cut nor rewritten by the tokenizer."""
        column: list[str] = pq.read_table(self.task.folder / f"{split}.parquet", columns=[PAIR[1]])[PAIR[1]].to_pylist()
        return [column[row] for row in rows]

    def _text(self, ids: list[int]) -> str:
        return str(self.texts.tokenizer.backend.decode(ids, skip_special_tokens=True)).strip()
