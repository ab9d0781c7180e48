"""Translation: an encoder-decoder predicts a text from the same text in another language."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from isoscope import plugins
from isoscope.base.atomic_files import write_text
from isoscope.base.errors import InputError
from isoscope.base.parquet import write_parquet
from isoscope.data.corpus import PAIR
from isoscope.metrics.translation_scores import GENERATED, bleu, bleu_shares, translation_scores
from isoscope.models.translation import written
from isoscope.objectives import Indices, Scored, Task
from isoscope.objectives.encoder_decoder import EncoderDecoder, Texts
from isoscope.objectives.language import sides


@plugins.objective("translation")
class Translation(EncoderDecoder):
    """Predict the target's tokens and its end, from the source and the target's tokens before them.

    The test split is translated by a beam search of width `beams` (1: greedy), all of it or its first `sentences`.
    `tokenize`: sacrebleu's name for the words of BLEU.
    """

    generated = GENERATED

    def __init__(self, task: Task, *, beams: int, sentences: int | None, tied: bool, tokenize: str) -> None:
        texts = sides(task)
        if tuple(task.manifest["columns"]) != PAIR:
            raise InputError("objective.kind: 'translation' needs a task of pairs; set 'masked' or 'causal'")
        bleu(tokenize)  # before training: its packages are installed
        self.beams, self.sentences, self.tokenize = beams, sentences, tokenize
        truncated = {split: texts.source[split].truncated + one.truncated for split, one in texts.target.items()}
        read = {split: one.lengths for split, one in texts.source.items()}
        super().__init__(texts, task, read=read, truncated=truncated, tied=tied)

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
        was_training = model.training
        model.eval()
        found: dict[int, str] = {}
        for part in self.plan(split, None, rows):
            read = self.rows_of(split, part, None).read
            ids = written(model, read, beams=self.beams, max_length=self.task.max_length)
            found |= {row: self._text(one) for row, one in zip(part.tolist(), ids, strict=True)}
        model.train(was_training)
        return [found[row] for row in rows.tolist()]

    def references(self, split: str, rows: Indices) -> list[str]:
        """Return the texts of `rows` as they stand in the data, neither cut nor rewritten by the tokenizer."""
        column: list[str] = pq.read_table(self.task.folder / f"{split}.parquet", columns=[PAIR[1]])[PAIR[1]].to_pylist()
        return [column[row] for row in rows]

    def _text(self, ids: list[int]) -> str:
        return str(self.texts.tokenizer.backend.decode(ids, skip_special_tokens=True)).strip()
