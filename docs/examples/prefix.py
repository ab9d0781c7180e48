"""An objective from a plugin, prefix language modelling: an encoder-decoder continues a text.

Source: Raffel et al. 2019 (https://arxiv.org/abs/1910.10683), section 3.2.
"""

import numpy as np

from isoscope import plugins
from isoscope.base.errors import InputError
from isoscope.objectives import Batch, Indices, Place, Task
from isoscope.objectives.language import sides
from isoscope.objectives.translation import EncoderDecoder, Texts


@plugins.objective("prefix")
class Prefix(EncoderDecoder):
    """Predict the target's later tokens from its first, a random number of them: from 1 to all but one.

    The number is a function of (seed, epoch, example); evaluation has the same numbers in every run.
    """

    def __init__(self, task: Task, *, tied: bool) -> None:
        texts = sides(task)
        # A prefix and its continuation have the target's tokens once, and two special tokens more, one of them read.
        read = {split: np.full(len(one.ids), 2, np.int64) for split, one in texts.target.items()}
        super().__init__(texts, task, read=read, tied=tied)

    def rows_of(self, split: str, rows: Indices, epoch: int | None) -> Texts:
        target = [self.target[split].ids[row] for row in rows]
        begin, end = [self.texts.specials.begin], [self.texts.specials.end]
        texts = Texts([], [])
        for one, cut in zip(target, self._cuts(split, rows, epoch), strict=True):
            texts.read.append(np.concatenate([one[: 1 + cut], end]))
            texts.written.append(np.concatenate([begin, one[1 + cut :]]))
        return texts

    def weight(self, split: str, rows: Indices, epoch: int | None) -> float:
        return super().weight(split, rows, epoch) - float(self._cuts(split, rows, epoch).sum())

    def preceding(self, split: str, rows: Indices, batch: Batch) -> Indices:
        """Return the tokens before the predicted tokens; the first continues the prefix, not the decoder's [CLS]."""
        found = super().preceding(split, rows, batch)
        first = batch[self.predicted] % batch[self.given].shape[1] == 0
        cuts = self._cuts(split, rows, None)
        found[first] = [self.target[split].ids[row][cut] for row, cut in zip(rows, cuts, strict=True)]
        return found

    def owners(self, split: str, rows: Indices, place: Place) -> tuple[Indices, None]:
        if place.vectors == "tokens":
            raise InputError("a prefix has another length in every epoch: its tokens have no fixed rows")
        return super().owners(split, rows, place)

    def _cuts(self, split: str, rows: Indices, epoch: int | None) -> Indices:
        """Return how many of a text's tokens the encoder reads: from 1 to all but one, for texts of two or more."""
        words = self.target[split].lengths[rows] - 2
        chance = self.draws[split].of(rows, epoch)[:, 0] / float(1 << 64)
        return np.minimum(1 + np.floor(chance * np.maximum(words - 1, 0)).astype(np.int64), words)
