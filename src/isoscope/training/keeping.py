"""What a run leaves behind: epochs' checkpoints and snapshots along the way, in Hugging Face's layout."""

import shutil
from pathlib import Path
from typing import Any, Literal

from safetensors.torch import load_model
from transformers.utils import logging

from isoscope.corpora import tokens
from isoscope.sealing import write_whole


class Keeper:
    """Writes `checkpoints/epoch-<e>` (weights, config, tokenizer) and `snapshots/step-<s>` (weights, config).

    `keep` says which epochs stay: all, the best, or the last. Each folder appears whole or not at all.
    """

    def __init__(self, work: Path, *, keep: Literal["all", "best", "last"], tokenizer: Path, max_length: int) -> None:
        self.checkpoints, self.snapshots = work / "checkpoints", work / "snapshots"
        self.keep, self.tokenizer, self.max_length = keep, tokenizer, max_length

    def epoch(self, model: Any, epoch: int, *, better: bool) -> None:
        """Keep an epoch's weights if `keep` wants them, and drop those it no longer wants."""
        if self.keep == "best" and not better:
            return
        target = self.checkpoints / f"epoch-{epoch}"

        def fill(folder: Path) -> None:
            _save(model, folder)
            tokens.copy(self.tokenizer, folder, max_length=self.max_length)

        write_whole(target, fill, "checkpoint")
        if self.keep != "all":
            for other in self.checkpoints.glob("epoch-*"):
                if other != target:
                    shutil.rmtree(other)

    def snapshot(self, model: Any, step: int) -> None:
        """Keep the weights after update `step`."""
        write_whole(self.snapshots / f"step-{step}", lambda folder: _save(model, folder), "snapshot")

    def chosen(self, *, best: int, last: int) -> int:
        """The epoch that is scored on the test split: the best one, or the last where only that is kept."""
        return last if self.keep == "last" else best

    def load(self, model: Any, epoch: int) -> None:
        """Put an epoch's kept weights back into the model."""
        load_model(model, self.checkpoints / f"epoch-{epoch}" / "model.safetensors")

    def kept(self) -> list[tuple[int, Path]]:
        """Epochs kept, with their folders."""
        return sorted((int(path.name.removeprefix("epoch-")), path) for path in self.checkpoints.glob("epoch-*"))


def _save(model: Any, folder: Path) -> None:
    logging.disable_progress_bar()  # a bar for each of many small files
    model.save_pretrained(folder)
