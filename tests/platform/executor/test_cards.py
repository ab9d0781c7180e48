"""Runs share cards: how many, on which, and what happens if one of them finds no memory."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from isoscope.base.errors import RunError, card_trouble
from isoscope.base.processes import StopSignal
from isoscope.platform.executor.cards import CONTEXT, USED, Card, Slots, cards
from isoscope.platform.executor.execute import Piece, side_by_side
from isoscope.platform.executor.live_table import Progress
from isoscope.platform.executor.this_machine import ThisMachine, this_machine

TWO = [Card("GPU-a", 80e9), Card("GPU-b", 80e9)]
SMI = """#!/bin/sh
echo '0, GPU-a, 81559'
echo '1, GPU-b, 40000'
"""


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that answers as nvidia-smi does on a machine with two cards."""
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text(SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("smi")
@pytest.mark.parametrize(
    "asked, found",
    [
        (None, [Card("GPU-a", 81559 * 2**20), Card("GPU-b", 40000 * 2**20)]),
        ("1", [Card("1", 40000 * 2**20)]),
        ("GPU-b, 0", [Card("GPU-b", 40000 * 2**20), Card("0", 81559 * 2**20)]),
        ("GPU-b", [Card("GPU-b", 40000 * 2**20)]),
        ("MIG-of-a-part", [Card("MIG-of-a-part", None)]),
        ("", []),
    ],
)
def test_cards_are_those_that_this_process_may_use(
    asked: str | None, found: list[Card], monkeypatch: pytest.MonkeyPatch
) -> None:
    if asked is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", asked)
    assert cards() == found


def test_without_an_answer_cards_are_counted_and_take_a_run_each(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert cards() == [Card("0", None), Card("1", None)]
    assert not Slots(cards(), share=None, most=8).measured(Card("0", None), 1e9)
    line = "nvidia-smi does not say how much memory each GPU has, so each takes one run; to share them"
    assert this_machine(1, device="cuda").room == 2
    assert line in capfd.readouterr().err
    this_machine(1, device="cuda", share=0.5)
    assert line not in capfd.readouterr().err


def test_the_memory_of_the_first_run_proposes_slots_and_a_share_sets_them() -> None:
    slots = Slots(TWO, share=None, most=100)
    assert slots.room == 2  # a run on each card, until one is measured
    assert not slots.measured(TWO[0], 0)
    assert slots.measured(TWO[0], 10e9)
    assert slots.each == int(USED * 80e9 / (10e9 + CONTEXT)) == 6
    assert slots.room == 12
    assert not slots.measured(TWO[1], 40e9)  # the first answer counts; a lack of memory halves it
    assert [Slots(TWO, share=share, most=100).room for share in (1, 0.5, 0.3, 0.25, 0.1)] == [2, 4, 6, 8, 20]
    assert Slots(TWO, share=0.25, most=3).room == 3


def test_runs_are_shared_out_evenly() -> None:
    slots = Slots(TWO, share=0.25, most=100)
    taken = [slots.take() for _ in range(6)]
    assert [taken.count(card) for card in TWO] == [3, 3]
    slots.give_back(TWO[1])
    assert slots.take() == TWO[1]


def lacking() -> torch.OutOfMemoryError:
    text = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB"
    return torch.OutOfMemoryError(text)


def run(pieces: dict[str, Callable[[Progress], str]], slots: Slots) -> dict[str, str]:
    with StopSignal() as stop:
        works = [Piece(name, do) for name, do in pieces.items()]
        return side_by_side(works, title="work", workers=None, stop=stop, place=ThisMachine(slots=slots))


def test_each_run_sees_its_card_alone(tmp_path: Path) -> None:
    latest = time.monotonic() + 300

    def do(progress: Progress) -> str:
        (tmp_path / str(os.getpid())).touch()
        while len([*tmp_path.iterdir()]) < 4 and time.monotonic() < latest:  # all four at the same time
            time.sleep(0.01)
        return os.environ["CUDA_VISIBLE_DEVICES"]

    found = run(dict.fromkeys("abcd", do), Slots(TWO, share=0.5, most=8))
    assert sorted(found.values()) == ["GPU-a", "GPU-a", "GPU-b", "GPU-b"]


def test_a_run_without_memory_is_repeated_with_fewer_neighbours(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The neighbours go on; the run fails as often as more than two are on the card, and then is done.

    Its neighbours stay until it has failed, however slow the machine is.
    """
    failed, latest = tmp_path / "failed", time.monotonic() + 300

    def crowded(own: str) -> bool:
        return own == "d" and len([*tmp_path.glob("*.here")]) > 2

    def do(progress: Progress, own: str) -> str:
        with (tmp_path / "begun").open("a") as file:
            file.write(own)
        here = tmp_path / f"{own}.here"
        here.touch()
        try:
            while not (crowded(own) or failed.exists() or time.monotonic() > latest):
                time.sleep(0.01)
            if crowded(own):
                failed.touch()
                raise lacking()
        finally:
            here.unlink()
        return own

    slots = Slots(TWO[:1], share=0.25, most=8)
    pieces = {name: partial(do, own=name) for name in "abcdef"}
    assert run(pieces, slots) == {name: name for name in "abcdef"}
    begun = (tmp_path / "begun").read_text()
    assert [begun.count(name) for name in "abcef"] == [1] * 5  # no neighbour was disturbed
    assert begun.count("d") > 1
    assert slots.each == 2 or slots.each == 1
    assert "the GPU has no memory left (CUDA out of memory. Tried to allocate 20.00 MiB)" in capfd.readouterr().err


def test_runs_that_find_no_memory_at_the_same_time_are_both_repeated() -> None:
    """The last to be looked at has no neighbour any more, but had one when it failed."""
    slots = Slots(TWO[:1], share=0.5, most=8)
    for _ in range(2):
        slots.take()
    for _ in range(2):
        assert slots.crowded(TWO[0])
        slots.give_back(TWO[0])
    assert slots.each == 1
    slots.take()
    assert not slots.crowded(TWO[0])


def test_every_way_of_lacking_memory_is_known() -> None:
    for text in ("CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"):
        assert str(card_trouble(RuntimeError(text))).startswith(f"the GPU has no memory left ({text}")
    assert card_trouble(RuntimeError("CUDA error: device-side assert triggered")) is None


def test_a_run_that_is_alone_and_finds_no_memory_fails() -> None:
    def do(progress: Progress) -> str:
        raise lacking()

    with pytest.raises(RunError, match=r"1 of 1 failed: a: the GPU has no memory left .*; use a smaller batch_size"):
        run({"a": do}, Slots(TWO[:1], share=0.5, most=8))


def test_slots_are_proposed_while_the_first_run_works(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The first run waits until the second has begun, which needs the slot that its memory proposes."""

    def do(progress: Progress, own: str) -> str:
        (tmp_path / own).touch()
        progress._at[2] = 30e9  # what torch would say of a card
        while not (tmp_path / "b").exists():
            time.sleep(0.02)
        return own

    assert len(run({name: partial(do, own=name) for name in "ab"}, Slots(TWO[:1], share=None, most=8))) == 2
    assert "a run needs 30.0 GB of a card: 2 runs share each card" in capfd.readouterr().err
