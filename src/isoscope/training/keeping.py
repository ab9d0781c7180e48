"""Keep a run's checkpoints by epoch and its snapshots during training, in Hugging Face's layout."""

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from safetensors.torch import load_file
from transformers.utils import logging

from isoscope.base.atomic_files import MANIFEST, fault, sha256, write_whole
from isoscope.base.errors import RunError
from isoscope.data import tokens


class Keeper:
    """Write `checkpoints/epoch-<e>` (weights, config, tokenizer) and `snapshots/step-<s>` (weights, config).

    `keep` says which epochs to keep: all, the best, or the last. Each folder is written completely or not at all.
    `held` maps each folder to keep to the sha256 of its manifest. `drop` deletes the others once no state needs them to
    resume.
    """

    def __init__(self, work: Path, *, keep: Literal["all", "best", "last"], tokenizer: Path, max_length: int) -> None:
        self.work, self.checkpoints = work, work / "checkpoints"
        self.keep, self.tokenizer, self.max_length = keep, tokenizer, max_length
        self.held: dict[str, str] = {}

    def epoch(self, model: Any, epoch: int, *, better: bool) -> None:
        """Write an epoch's checkpoint if `keep` asks for it, and release those no longer asked for."""
        if self.keep == "best" and not better:
            return

        def fill(folder: Path) -> None:
            _save(model, folder)
            tokens.copy(self.tokenizer, folder, max_length=self.max_length)

        sha256 = write_whole(self._checkpoint(epoch), fill, "checkpoint")
        if self.keep != "all":
            self.held = {name: known for name, known in self.held.items() if not name.startswith("checkpoints/")}
        self.held[f"checkpoints/epoch-{epoch}"] = sha256

    def snapshot(self, model: Any, step: int) -> None:
        """Write a snapshot of the weights after update `step`."""
        name = f"snapshots/step-{step}"
        self.held[name] = write_whole(self.work / name, lambda folder: _save(model, folder), "snapshot")

    def drop(self, needed: Collection[str] = ()) -> None:
        """Delete folders that are neither held nor `needed` by a state."""
        for path in [*self.work.glob("checkpoints/*"), *self.work.glob("snapshots/*")]:
            if path.relative_to(self.work).as_posix() not in {*self.held, *needed}:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    def fault(self, held: Mapping[str, str]) -> str | None:
        """Return what is wrong with the folders that a state needs, with the file's name; None if all are intact."""
        for name, known in held.items():
            wrong = fault(self.work / name) if (self.work / name).is_dir() else "is missing"
            if wrong is None and sha256(self.work / name / MANIFEST) != known:
                wrong = "is not the folder that the state was saved with"
            if wrong:
                return f"{name}: {wrong}"
        return None

    def load(self, model: Any, epoch: int) -> None:
        """Load an epoch's checkpoint into the model. Raises `RunError` if it is damaged."""
        folder = self._checkpoint(epoch)
        if wrong := fault(folder):
            raise RunError(f"{folder}: {wrong}; run the same command to resume from an older state")
        given = load_file(folder / "model.safetensors")
        missing, unexpected = model.load_state_dict(given, strict=False)
        held = model.state_dict()
        shared = {held[name].data_ptr() for name in given if name in held}  # tied tables are stored once
        if lacking := [name for name in missing if held[name].data_ptr() not in shared] + unexpected:
            raise RunError(f"{folder}: {lacking[0]}: in the file or in the model alone; train this run again")

    def kept(self) -> list[tuple[int, Path]]:
        """Return the epochs kept, with their folders."""
        names = [name for name in self.held if name.startswith("checkpoints/")]
        return sorted((int(name.rpartition("-")[2]), self.work / name) for name in names)

    def _checkpoint(self, epoch: int) -> Path:
        return self.checkpoints / f"epoch-{epoch}"


def _save(model: Any, folder: Path) -> None:
    logging.disable_progress_bar()  # the bar would show for each of many small files
    # By the names of this model, not of the checkpoint that it started from (as `LayerNorm.gamma` of 2018).
    model.save_pretrained(folder, save_original_format=False)
