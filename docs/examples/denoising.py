"""An objective from a plugin, denoising: an encoder-decoder restores a text with masked tokens.

Source: Lewis et al. 2019 (https://arxiv.org/abs/1910.13461), token masking.
"""

from typing import Annotated

import numpy as np
from annotated_types import Gt, Lt

from isoscope import plugins
from isoscope.data.chosen_tokens import Noise, choose
from isoscope.objectives import Indices, Task
from isoscope.objectives.language import padded, sides
from isoscope.objectives.translation import EncoderDecoder, Texts


@plugins.objective("denoising")
class Denoising(EncoderDecoder):
    """Predict every token of the target, from the target with the share `rate` of its tokens masked.

    The choice is a function of (seed, epoch, example); evaluation has the same choice in every run.
    """

    def __init__(self, task: Task, *, rate: Annotated[float, Gt(0), Lt(1)], tied: bool) -> None:
        texts = sides(task)
        self.rate, self.noise = rate, Noise(texts.mask_id, texts.ordinary, 1.0, 0.0)
        read = {split: one.lengths for split, one in texts.target.items()}
        super().__init__(texts, task, read=read, tied=tied)

    def rows_of(self, split: str, rows: Indices, epoch: int | None) -> Texts:
        target = [self.target[split].ids[row] for row in rows]
        ids, mask = padded(target, self.texts.specials.pad)
        within = np.arange(ids.shape[1])
        words = (within > 0) & (within < mask.sum(1)[:, None] - 1)
        draws = self.draws[split].of(rows, epoch)
        noised = self.noise.put(ids, choose(draws, words, share=self.rate), draws)
        return Texts([row[: len(one)] for row, one in zip(noised, target, strict=True)], target)
