"""Masked language modelling: predict chosen tokens, most of them masked.

Source: Devlin et al. 2018 (https://arxiv.org/abs/1810.04805), section 3.1.
"""

from typing import Any

import numpy as np

from isoscope import plugins
from isoscope.base.errors import InputError
from isoscope.data.chosen_tokens import Noise, TokenDraws, choose, numbers_of_chosen
from isoscope.objectives import Batch, Indices, Task
from isoscope.objectives.language import LanguageModel, padded, sides


@plugins.objective("masked")
class Masked(LanguageModel):
    """Predict `rate` of a sentence's tokens, 1 or more, from both sides.

    In place of a chosen token stands [MASK] with the share `masked`, a random token with the share `random`, else the
    token itself. The choice is a function of (seed, epoch, example); evaluation has the same choice in every run.
    """

    wiring = "masked"

    def __init__(self, task: Task, *, side: str, rate: float, masked: float, random: float, tied: bool) -> None:
        texts = sides(task)
        super().__init__(texts, task, getattr(texts, side), tied=tied)
        for split, one in self.lengths.items():
            if len(empty := np.flatnonzero(one <= 2)):  # [CLS] and [SEP] alone
                row = texts.drawn[empty[0]] if split == "train" else empty[0]
                raise InputError(
                    f"{split}.parquet, row {row + 1}: the text is empty, so there is no token to mask "
                    f"({len(empty)} of {len(one)} rows); remove it from the data"
                )
        self.rate = rate
        self.noise = Noise(texts.mask_id, texts.ordinary, masked, random)
        self.draws = {split: TokenDraws(one, seed=task.seed) for split, one in self.lengths.items()}

    def batch(self, split: str, rows: Indices, epoch: int | None) -> Batch:
        encoded = self.splits[split]
        ids, mask = padded([encoded.ids[row] for row in rows], self.texts.specials.pad)
        draws = self.draws[split].of(rows, epoch)
        chosen = choose(draws, self._words(rows, split, ids.shape[1]), share=self.rate)
        predicted = np.flatnonzero(chosen)
        seen = self.noise.put(ids, chosen, draws)
        return {"input_ids": seen, "attention_mask": mask, "predicted": predicted, "labels": ids.ravel()[predicted]}

    def weight(self, split: str, rows: Indices, epoch: int | None) -> float:
        draws = self.draws[split].of(rows, epoch)
        return float(numbers_of_chosen(draws, self.lengths[split][rows] - 2, share=self.rate).sum())

    def preceding(self, split: str, rows: Indices, batch: Batch) -> Indices:
        ids, _ = padded([self.splits[split].ids[row] for row in rows], self.texts.specials.pad)
        return ids.ravel()[batch["predicted"] - 1]

    def _words(self, rows: Indices, split: str, width: int) -> Any:
        """Return which tokens are text, `[B, L]`: all but the first, the last and the padding."""
        within = np.arange(width)
        return (within > 0) & (within < self.lengths[split][rows][:, None] - 1)
