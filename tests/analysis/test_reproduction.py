"""Published figures beside ours: each verdict by a case that deserves it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isoscope.analysis.reproduction import (
    ALONE,
    COMPONENTS,
    FAIL,
    PASS,
    UNDERPOWERED,
    as_text,
    published,
    read,
    reproduction,
)
from isoscope.errors import InputError


def averages(values: list[float], arm: str = "additive-selected", figure: str = "a_1") -> pd.DataFrame:
    rows = [(arm, seed, f"step/{figure}", value, 10) for seed, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["arm", "seed", "figure", "value", "points"])


def verdict(values: list[float], known: float | None = 0.5, tolerance: float = 0.05) -> str:
    given = {} if known is None else {("selected", "a_1"): known}
    (cell,) = reproduction(averages(values), given, tolerance=tolerance, confidence=0.95)
    assert cell.mean == pytest.approx(np.mean(values))
    assert cell.difference == (None if known is None else pytest.approx(np.mean(values) - known))
    return cell.verdict


def test_verdicts() -> None:
    assert verdict([0.51, 0.52, 0.53]) == PASS
    assert verdict([0.60, 0.61, 0.62]) == FAIL
    assert verdict([0.40, 0.50, 0.60]) == UNDERPOWERED, "the mean agrees, but the interval is wide"
    assert verdict([0.53, 0.58, 0.61]) == UNDERPOWERED, "the interval reaches into the tolerance"
    assert verdict([0.51, 0.52]) == UNDERPOWERED, "two seeds have no interval"
    assert verdict([0.51, 0.52, 0.53], known=None) == ALONE


def test_the_interval_is_students() -> None:
    (cell,) = reproduction(averages([0.4, 0.5, 0.6]), {}, tolerance=0.05, confidence=0.95)
    assert cell.sd == pytest.approx(0.1)
    assert cell.high is not None
    assert cell.high - cell.mean == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-6)


@pytest.mark.parametrize("checkpoint", ["google-bert/bert-base-uncased", "bert-base-uncased"])
def test_the_published_table_is_found_by_backbone_and_task(checkpoint: str) -> None:
    found = published(checkpoint, "mrpc")
    assert len(found) == 3 * len(COMPONENTS)
    assert found["none", "a_1"] == 0.679
    assert found["all", "a_3_centred"] == 0.017
    assert published("roberta-base", "cola")["selected", "a_1_centred"] == 0.512


@pytest.mark.parametrize("checkpoint, task", [(None, "mrpc"), ("bert-base-uncased", "sst2"), ("some/other", "cola")])
def test_another_backbone_or_task_has_nothing_published(checkpoint: str | None, task: str) -> None:
    assert published(checkpoint, task) == {}


def test_what_was_written_is_read_and_shown(tmp_path: Path) -> None:
    cells = reproduction(averages([0.51, 0.52, 0.53]), {("selected", "a_1"): 0.5}, tolerance=0.05, confidence=0.95)
    (tmp_path / "reproduction.json").write_text(json.dumps([cell._asdict() for cell in cells]))
    assert read(tmp_path) == cells
    text = as_text(cells)
    assert "additive-selected  a_1" in text
    assert text.splitlines()[-1] == "1 pass"
    assert "no runs" in as_text([])


@pytest.mark.parametrize("text", [None, "{", '[{"arm": "x"}]'])
def test_what_is_not_there_or_damaged_is_refused_by_name(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "reproduction.json").write_text(text)
    with pytest.raises(InputError, match=r"reproduction.json: .*; run: isoscope repro"):
        read(tmp_path)
