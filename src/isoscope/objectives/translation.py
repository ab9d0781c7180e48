"""Translation, and two objectives between it and causal language modelling, on one encoder-decoder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from isoscope.data.chosen_tokens import Noise, TokenDraws, choose
from isoscope.data.corpus import PAIR
from isoscope.data.parquet import write_parquet
from isoscope.errors import InputError
from isoscope.metrics.translation_scores import translation_scores
from isoscope.objectives import Batch, Indices, Place, Scored, Task, owners_of
from isoscope.objectives.language import LanguageModel, Sides, padded, sides
from isoscope.sealing import write_text

Source = Literal["text", "noised", "prefix"]


class Translation(LanguageModel):
    """Predict every token of the target and its end, from the source and the target's tokens before it.

    `source` text: the other language. noised: the target with the share `rate` of its tokens masked (denoising, Lewis
    et al. 2019, https://arxiv.org/abs/1910.13461). prefix: the target's first tokens, a random number of them; only
    the others are predicted (prefix language modelling, Raffel et al. 2019, https://arxiv.org/abs/1910.10683).
    Random choices are functions of (seed, epoch, example); evaluation has the same choice in every run.
    """

    wiring = "translation"
    states = "encoder_hidden_states"

    def __init__(
        self, texts: Sides, task: Task, *, source: Source, rate: float, beams: int, sentences: int | None, tied: bool
    ) -> None:
        self.source, self.rate, self.beams, self.sentences = source, rate, beams, sentences
        if source == "text" and tuple(task.manifest["columns"]) != PAIR:
            raise InputError("objective.source: 'text' needs a task of pairs; set 'noised' or 'prefix'")
        target = texts.target
        self.draws = {split: TokenDraws(one.lengths, seed=task.seed) for split, one in target.items()}
        self.noise = Noise(texts.mask_id, texts.ordinary, 1.0, 0.0)
        read = texts.source if source == "text" else target
        truncated = {
            split: one.truncated + (read[split].truncated if read is not target else 0) for split, one in target.items()
        }
        # A prefix and its continuation have the target's tokens once, and a special token more.
        both = source != "prefix"
        lengths = {split: one.lengths + (target[split].lengths - 1 if both else 1) for split, one in read.items()}
        super().__init__(texts, lengths, truncated, task, tied=tied)

    def batch(self, split: str, rows: Indices, epoch: int | None) -> Batch:
        pad = self.texts.specials.pad
        reads, writes = self._texts(split, rows, epoch)
        ids, mask = padded(reads, pad)
        given, given_mask = padded([one[:-1] for one in writes], pad)
        following, _ = padded([one[1:] for one in writes], pad)
        predicted = np.flatnonzero(given_mask)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "decoder_input_ids": given,
            "decoder_attention_mask": given_mask,
            "decoder_predicted": predicted,
            "labels": following.ravel()[predicted],
        }

    def _texts(self, split: str, rows: Indices, epoch: int | None) -> tuple[list[Indices], list[Indices]]:
        """Return what the encoder reads and what the decoder writes, each with its first and its last special token."""
        target = [self.texts.target[split].ids[row] for row in rows]
        if self.source == "text":
            return [self.texts.source[split].ids[row] for row in rows], target
        draws = self.draws[split].of(rows, epoch)
        if self.source == "noised":
            ids, mask = padded(target, self.texts.specials.pad)
            within = np.arange(ids.shape[1])
            words = (within > 0) & (within < mask.sum(1)[:, None] - 1)
            noised = self.noise.put(ids, choose(draws, words, share=self.rate), draws)
            return [row[: len(one)] for row, one in zip(noised, target, strict=True)], target
        cuts = self._cuts(split, rows, epoch)
        begin, end = [self.texts.specials.begin], [self.texts.specials.end]
        reads = [np.concatenate([one[: 1 + cut], end]) for one, cut in zip(target, cuts, strict=True)]
        return reads, [np.concatenate([begin, one[1 + cut :]]) for one, cut in zip(target, cuts, strict=True)]

    def _cuts(self, split: str, rows: Indices, epoch: int | None) -> Indices:
        """Return how many of a text's tokens the encoder reads: from 1 to all but one, for texts of two or more."""
        words = self.texts.target[split].lengths[rows] - 2
        chance = self.draws[split].of(rows, epoch)[:, 0] / float(1 << 64)
        return np.minimum(1 + np.floor(chance * np.maximum(words - 1, 0)).astype(np.int64), words)

    def weight(self, split: str, rows: Indices, epoch: int | None) -> float:
        predicted = self.texts.target[split].lengths[rows] - 1
        cut = self._cuts(split, rows, epoch).sum() if self.source == "prefix" else 0
        return float(predicted.sum() - cut)

    def owners(self, split: str, rows: Indices, place: Place) -> tuple[Indices, None]:
        read = self.texts.source if self.source == "text" else self.texts.target
        if self.source == "prefix" and place.vectors == "tokens":
            raise InputError("a prefix has another length in every epoch: its tokens have no fixed rows")
        return owners_of(read[split].lengths[rows], place), None

    def row_of_predicted(self, batch: Mapping[str, Tensor]) -> Tensor:
        return batch["decoder_predicted"] // batch["decoder_input_ids"].shape[1]

    def finish(self, model: Any, scored: Scored, folder: Path) -> dict[str, float]:
        """Write predictions.parquet and, for a translation, bleu.json and translations.parquet; return its scores."""
        super().finish(model, scored, folder)
        if self.source != "text":
            return {}
        rows = np.arange(self.size(scored.split))[: self.sentences]
        translated = self._translated(model, scored.split, rows)
        found = translation_scores(translated, *self._read(scored.split, rows))
        write_text(folder / "bleu.json", json.dumps(found._asdict(), indent=1) + "\n", "table")
        write_parquet(pd.DataFrame({"row": rows, "translation": translated}), folder / "translations.parquet")
        return {"bleu": found.bleu, "copied": found.copied}

    @torch.inference_mode()
    def _translated(self, model: Any, split: str, rows: Indices) -> list[str]:
        was_training = model.training
        model.eval()
        found = [""] * len(rows)
        for part in self.plan(split, None, rows):
            batch = self.batch(split, part, None)
            read = {name: torch.from_numpy(batch[name]).to(model.device) for name in ("input_ids", "attention_mask")}
            written = model.generate(
                **read,
                num_beams=self.beams,
                do_sample=False,
                max_length=self.task.max_length,
            )
            for row, ids in zip(part, written.tolist(), strict=True):
                found[int(row)] = self._text(ids)
        model.train(was_training)
        return found

    def _read(self, split: str, rows: Indices) -> tuple[list[str], list[str]]:
        """Return sources and references as text, as the tokenizer restores them."""
        source, target = (
            [self._text(side[split].ids[row].tolist()) for row in rows]
            for side in (self.texts.source, self.texts.target)
        )
        return source, target

    def _text(self, ids: list[int]) -> str:
        return str(self.texts.tokenizer.backend.decode(ids, skip_special_tokens=True)).strip()


def objective(task: Task, **options: Any) -> Translation:
    """Return the objective of a prepared task; `options` of the section `objective`."""
    return Translation(sides(task), task, **options)
