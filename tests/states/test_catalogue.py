"""Enough data are extracted for all folds, or the error names the setting that is too small."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isoscope.base.errors import InputError
from isoscope.geometry.probes import FRACTIONS
from isoscope.states.catalogue import check_enough
from isoscope.states.trajectory import Trajectory
from probe_material import SNAPSHOTS, planted

LEAST = len(FRACTIONS)


def kept(
    folder: Path, *, sentences: int = LEAST, words: int = LEAST, block: int = 5, bank: int | None = None
) -> Trajectory:
    """Make this many sentences of each kind; a sentence of the block has two tokens between [CLS] and [SEP]."""
    tables: dict[str, Any] = {
        "probe": {"label": np.arange(sentences) % 2},
        "words": {"sentence": np.repeat(np.arange(words), 2)},
        "tokens": {"sentence": np.repeat(np.arange(block), 4), "end": np.tile([True, False, False, True], block)},
    }
    if bank is not None:
        tables["treebank"] = {"sentence": np.arange(bank)}
    return planted(folder, {one.name: {"first": [[[0.0]]]} for one in SNAPSHOTS}, **tables)


def test_what_is_just_enough_passes(tmp_path: Path) -> None:
    check_enough(kept(tmp_path / "bare"), folds=5, neighbours=8)
    check_enough(kept(tmp_path / "bank", bank=LEAST), folds=LEAST, neighbours=8)


@pytest.mark.parametrize(
    "given, asked, said",
    [
        ({"sentences": LEAST - 1}, {}, rf"extraction.share \(or extraction.sentences\): {LEAST - 1} sentences"),
        ({"words": 1}, {}, "extraction.words: 1 sentences"),
        ({"bank": 2}, {}, "extraction.treebank.sentences: 2 sentences"),
        ({}, {"folds": LEAST + 1}, f"but probes need {LEAST + 1}"),
        ({"block": 1}, {}, "extraction.block: a token has 0 in other sentences, fewer than measures.neighbours = 5"),
        ({}, {"neighbours": 9}, "extraction.block: a token has 8 in other"),
    ],
)
def test_what_is_too_little_is_named(tmp_path: Path, given: dict[str, int], asked: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        check_enough(kept(tmp_path, **given), **{"folds": 5, "neighbours": 5} | asked)
    assert "\n" not in str(caught.value)
