"""Causal language modelling: predict each token from those before it."""

import numpy as np

from isoscope import plugins
from isoscope.data.chosen_tokens import TokenDraws, choose, numbers_of_chosen
from isoscope.objectives import Batch, Indices, Task
from isoscope.objectives.language import LanguageModel, padded, sides


@plugins.objective("causal")
class Causal(LanguageModel):
    """Predict every token of a sentence and its end from the tokens before it.

    With a `share` below 1, a random share of them counts, 1 or more: a control for the number of predicted tokens,
    a function of (seed, epoch, example); evaluation has the same choice in every run.
    """

    wiring = "causal"

    def __init__(self, task: Task, *, side: str, share: float, tied: bool) -> None:
        texts = sides(task, masks=False, frames=True)
        splits = getattr(texts, side)
        # The last token is predicted, not read.
        read = {split: encoded.lengths - 1 for split, encoded in splits.items()}
        super().__init__(texts, task, splits, lengths=read, tied=tied)
        self.share = share
        self.draws = {split: TokenDraws(one, seed=task.seed) for split, one in read.items()}

    def batch(self, split: str, rows: Indices, epoch: int | None) -> Batch:
        encoded = self.splits[split]
        ids, mask = padded([encoded.ids[row][:-1] for row in rows], self.texts.specials.pad)
        following, _ = padded([encoded.ids[row][1:] for row in rows], self.texts.specials.pad)
        chosen = mask.astype(bool)
        if self.share < 1:
            chosen = choose(self.draws[split].of(rows, epoch), chosen, share=self.share)
        predicted = np.flatnonzero(chosen)
        labels = following.ravel()[predicted]
        return {"input_ids": ids, "attention_mask": mask, "predicted": predicted, "labels": labels}

    def weight(self, split: str, rows: Indices, epoch: int | None) -> float:
        read = self.lengths[split][rows]
        if self.share == 1:
            return float(read.sum())
        return float(numbers_of_chosen(self.draws[split].of(rows, epoch), read, share=self.share).sum())
