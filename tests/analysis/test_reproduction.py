"""Published figures beside ours: each verdict by a case that deserves it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.analysis.reproduction import (
    ALONE,
    FAIL,
    PASS,
    TABLE_2,
    UNDERPOWERED,
    Cell,
    Known,
    as_text,
    published,
    read,
    reproduction,
)
from isoscope.errors import InputError

HALF = Known(0.5, 0.05)


def averages(values: list[float], arm: str = "additive-selected", figure: str = "a_1") -> pd.DataFrame:
    rows = [(arm, seed, f"step/{figure}", value, 10) for seed, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["arm", "seed", "figure", "value", "points"])


def cells(values: list[float], known: Known | str) -> list[Cell]:
    arms = {"additive-selected": known if isinstance(known, str) else {"a_1": known}}
    return reproduction(averages(values), arms, confidence=0.95, power=0.8)


def verdict(values: list[float], known: Known | str = HALF) -> str:
    (cell,) = cells(values, known)
    assert cell.mean == pytest.approx(np.mean(values))
    assert cell.difference == (None if isinstance(known, str) else pytest.approx(np.mean(values) - known.value))
    return cell.verdict


def test_verdicts() -> None:
    assert verdict([0.51, 0.515, 0.52]) == PASS
    assert verdict([0.60, 0.61, 0.62]) == FAIL
    assert verdict([0.40, 0.50, 0.60]) == UNDERPOWERED, "the mean agrees, but the interval is wide"
    assert verdict([0.53, 0.54, 0.55]) == UNDERPOWERED, "the mean is within the tolerance, not all of the interval"
    assert verdict([0.51, 0.52]) == UNDERPOWERED, "two seeds have no interval"
    assert verdict([0.51, 0.52, 0.53], "another backbone") == ALONE


def test_the_interval_is_students_and_the_effect_that_of_so_many_seeds() -> None:
    (cell,) = cells([0.4, 0.5, 0.6], "another backbone")
    assert cell.sd == pytest.approx(0.1)
    assert cell.high is not None
    assert cell.high - cell.mean == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-6)
    assert cell.detectable == pytest.approx(0.1 * 3.26, abs=0.001)


def run(checkpoint: str | None = "bert-base-uncased", task: str = "mrpc", arm: str = "none", **training: int) -> Any:
    encoder = {} if checkpoint is None else {"checkpoint": checkpoint}
    return {
        "task": task,
        "axes": {"fusion": "additive", "penalty": arm},
        "params": {
            "model": {"encoder": encoder, "fusion": {"kind": "additive"}},
            "training": {"batch_size": 64, "epochs": 10, **training},
        },
    }


@pytest.mark.parametrize("checkpoint", ["google-bert/bert-base-uncased", "bert-base-uncased"])
def test_the_published_table_is_found_by_backbone_task_and_penalty(checkpoint: str) -> None:
    none, every = (published(run(checkpoint, arm=arm), tolerance=0.05) for arm in ("none", "all"))
    assert not isinstance(none, str)
    assert not isinstance(every, str)
    assert none["a_1"] == Known(0.679, 0.05)
    assert every["a_3_centred"].value == 0.017
    roberta = published(run("roberta-base", "cola", "selected"), tolerance=0.05)
    assert not isinstance(roberta, str)
    assert roberta["a_1_centred"].value == 0.512


def test_what_could_be_another_arms_figure_agrees_with_neither() -> None:
    found = published(run(), tolerance=0.05)
    assert not isinstance(found, str)
    assert found["a_3"] == Known(0.023, pytest.approx((0.028 - 0.023) / 2))
    assert found["a_3_centred"].tolerance == 0.0, "two arms have the same"


@pytest.mark.parametrize(
    "other, reason",
    [
        (run(None), "nothing was published"),
        (run("some/other"), "nothing was published"),
        (run(task="sst2"), "nothing was published"),
        (run(arm="random_k"), "nothing was published"),
        (run(batch_size=32), "published with training.batch_size 64, trained with 32"),
        (run(epochs=3), "published with training.epochs 10, trained with 3"),
    ],
)
def test_what_is_no_repetition_stands_alone_and_says_why(other: Any, reason: str) -> None:
    found = published(other, tolerance=0.05)
    assert isinstance(found, str)
    assert reason in found


def test_another_fusion_is_another_model() -> None:
    other = run()
    other["params"]["model"]["fusion"]["kind"] = "conv2d"
    assert isinstance(published(other, tolerance=0.05), str)


def test_what_was_written_is_read_and_shown(tmp_path: Path) -> None:
    found = cells([0.51, 0.515, 0.52], Known(0.5, 0.05))
    (tmp_path / "reproduction.json").write_text(json.dumps([cell._asdict() for cell in found]))
    assert read(tmp_path) == found
    text = as_text(found)
    assert "additive-selected  a_1" in text
    assert text.splitlines()[-1] == "1 pass"
    assert TABLE_2 in text
    assert TABLE_2 not in as_text(cells([0.51, 0.515, 0.52], "nothing was published"))
    assert "no runs" in as_text([])


@pytest.mark.parametrize("text", [None, "{", '[{"arm": "x"}]'])
def test_what_is_not_there_or_damaged_is_refused_by_name(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "reproduction.json").write_text(text)
    with pytest.raises(InputError, match=r"reproduction.json: .*; run: isoscope repro"):
        read(tmp_path)
