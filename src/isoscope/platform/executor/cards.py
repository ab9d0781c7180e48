"""The cards (GPUs) of this machine, and how many runs share each of them."""

import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

CONTEXT = 0.6e9
"""Bytes that a process takes on a card beside what torch reserves: the CUDA context and its kernels."""
USED = 0.9
"""Share of a card's memory that proposed slots may fill: later batches may be longer than the first batches."""


class Card(NamedTuple):
    """A card: its name in CUDA_VISIBLE_DEVICES (empty: leave the variable), and its memory, bytes (None: unknown)."""

    name: str
    memory: float | None


def cards() -> list[Card]:
    """Return the cards that this process may use.

    They are asked of nvidia-smi, since a process with a CUDA context must not be forked. Without an answer torch counts
    them, and their memory is unknown.
    """
    command = ("nvidia-smi", "--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits")
    known: dict[str, Card] = {}
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
        for index, uuid, memory in (line.split(", ") for line in text.splitlines()):
            known[index] = known[uuid] = Card(uuid, float(memory) * 2**20)
    asked = os.environ.get("CUDA_VISIBLE_DEVICES")
    if asked is None:
        return list(dict.fromkeys(known.values())) or [Card(str(number), None) for number in range(_counted())]
    names = [name.strip() for name in asked.split(",") if name.strip()]
    whole = {name: [key for key in known if key == name or (key.startswith(name) and name > "GPU-")] for name in names}
    return [Card(name, known[whole[name][0]].memory if whole[name] else None) for name in names]


def _counted() -> int:
    """Return the number of cards as torch counts them without a CUDA context."""
    import torch

    return torch.cuda.device_count()


class Slots:
    """Places for runs on cards: each run has one card, and shares it with others.

    `share`: of a card, for each run; None: one run per card until `measured` knows what a run needs. `most`: runs at a
    time, on all cards.
    """

    def __init__(self, cards: Sequence[Card], *, share: float | None, most: int) -> None:
        self.cards, self.most = cards, most
        self.each: int | None = None if share is None else max(1, int(1 / share + 1e-9))
        """Runs per card; None: not known yet."""
        self._used, self._beside = Counter[Card](), Counter[Card]()

    @property
    def room(self) -> int:
        """Number of runs that fit."""
        return max(1, min(self.most, len(self.cards) * (self.each or 1)))

    def take(self) -> Card:
        """Return the card with the fewest runs, for one more."""
        card = min(self.cards, key=lambda one: self._used[one])
        self._used[card] += 1
        self._beside[card] = max(self._beside[card], self._used[card])
        return card

    def give_back(self, card: Card) -> None:
        """Free a slot."""
        self._used[card] -= 1
        if not self._used[card]:
            del self._beside[card]

    def measured(self, card: Card, peak: float) -> bool:
        """Propose slots from the most bytes that a run has reserved; return whether this changed their number."""
        if self.each is not None or card.memory is None or not peak:
            return False
        self.each = max(1, int(USED * card.memory / (peak + CONTEXT)))
        return self.each > 1

    def crowded(self, card: Card) -> bool:
        """Halve the slots after a run found no memory; return False if the card had no other run, so nothing helps.

        Of runs that find none at the same time, the last to end has no neighbour left, but had some.
        """
        if self._beside[card] <= 1:
            return False
        self.each = max(1, (self.each or 1) // 2)
        return True
