"""Processes on this machine: as many as its cores or its cards have room for."""

import os
import sys
from collections.abc import Callable
from functools import partial
from math import inf

from isoscope.base.workers import cores
from isoscope.platform.executor.cards import Card, Slots, cards
from isoscope.platform.executor.child import Child
from isoscope.platform.executor.live_table import Progress
from isoscope.platform.executor.piece import Piece


class Local(Child):
    """A process on this machine, perhaps with a card of its own or shared."""

    began = True

    def __init__(self, do: Callable[[Progress], str], card: Card | None = None) -> None:
        self.progress, self.card = Progress(), card
        super().__init__(partial(_on, card, do, self.progress))


def _on(card: Card | None, do: Callable[[Progress], str], progress: Progress) -> str:
    if card is not None and card.name:
        os.environ["CUDA_VISIBLE_DEVICES"] = card.name
    return do(progress)


class ThisMachine:
    """Where processes work without a cluster: on `slots` of its cards, or `usual` at a time on its cores."""

    patience = inf

    def __init__(self, usual: float = inf, slots: Slots | None = None) -> None:
        self.usual, self._slots = usual, slots

    @property
    def room(self) -> float:
        """Number of processes that fit now: on the cores, as many as are asked for."""
        return inf if self._slots is None else self._slots.room

    def start(self, piece: Piece) -> Local:
        """Start a process for a piece."""
        return Local(piece.do, None if self._slots is None else self._slots.take())

    def look(self, process: Local) -> str | None:
        """Note what a running process needs; return a line if there is room for more processes now."""
        if self._slots is None or process.card is None or not self._slots.measured(process.card, process.progress.peak):
            return None
        return f"a run needs {process.progress.peak / 1e9:.1f} GB of a card: {self._slots.each} runs share each card"

    def freed(self, process: Local, *, crowded: bool) -> bool:
        """Free what a process had; return whether it can work with fewer others, if its card was too `crowded`."""
        if self._slots is None or process.card is None:
            return False
        again = crowded and self._slots.crowded(process.card)
        self._slots.give_back(process.card)
        return again

    def shortage(self) -> str:
        """Return nothing: processes start at once here."""
        return ""


def this_machine(threads: int | None, *, device: str, share: float | None = None) -> ThisMachine:
    """Return this machine, for runs of `threads` threads (None: all cores) on `device`.

    On cards, each run has the `share` of one; None: it is proposed from the memory that the first runs take.
    """
    if device == "cpu":
        return ThisMachine(max(1, cores() // threads) if threads else 1)
    found = cards()
    if share is None and any(card.memory is None for card in found):
        print(
            "isoscope: nvidia-smi does not say how much memory each GPU has, so each takes one run; to share them: "
            "--gpus-per-run 0.25",
            file=sys.stderr,
        )
    return ThisMachine(slots=Slots(found, share=share, most=max(1, cores() // (threads or 1))))
