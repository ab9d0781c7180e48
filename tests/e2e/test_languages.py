"""A Chinese text with and without a segmenter: pages say which, and caches of another version are not used."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from isoscope.base.errors import InputError
from isoscope.data import tokens, words
from isoscope.platform.cli import app
from probe_material import bert, gpt2, save

FEW = ("--occurrences", "400", "--items", "40", "--draws", "20", "--permutations", "3", "--histogram", "1000")
PROBES = ("--analysis", "probing", "--vectors", "mean", "--sentences", "60", "--words", "60")
WHEN, WHO = ("昨天", "今天早上", "上个星期", "去年"), ("我", "她", "老师", "我们", "学生")
LIKES = {"很喜欢": "好评", "很讨厌": "差评"}
ROWS = [
    {"句子": f"{when}，{who}{likes}{what}。", "类别": LIKES[likes]}
    for when, who, likes, what in product(WHEN, WHO, LIKES, ("新书", "电影", "音乐"))
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save(tmp_path_factory.mktemp("chinese"), encoder=bert(), decoder=gpt2())
    for name in ("encoder", "decoder"):
        tokens.train_wordpiece([row["句子"] for row in ROWS], folder / name, vocab_size=90, lowercase=True)
    pd.DataFrame(ROWS).to_csv(folder / "zh.csv", index=False)
    return folder


def isoscope(place: Path, *arguments: str) -> dict[str, Any]:
    """Run a command on the two checkpoints; return the manifest."""
    command, *more = arguments
    named = ("--text", "zh.csv", "--column", "句子", "--out", command)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        app([command, "encoder", "decoder", *named, *more], standalone_mode=False)
    return json.loads((place / command / "manifest.json").read_text("utf-8"))


def kept(place: Path, name: str) -> set[str]:
    return {path.name for path in (place / name).glob("cache/*/*")}


@pytest.mark.parametrize("command, options", [("spaces", FEW), ("geometry", (*PROBES, "--labels", "类别"))])
def test_a_page_names_its_segmenter_and_another_version_computes_again(
    place: Path, monkeypatch: pytest.MonkeyPatch, command: str, options: tuple[str, ...]
) -> None:
    assert isoscope(place, command, *options)["words"] == words.installed()
    page, before = (place / command / "index.html").read_text("utf-8"), kept(place, command)
    assert str(words.installed()) in page
    isoscope(place, command, *options)
    assert kept(place, command) == before, "the same version computes nothing"
    monkeypatch.setattr(words, "installed", lambda: "icu4py 9, ICU 99")
    assert isoscope(place, command, *options)["words"] == "icu4py 9, ICU 99"
    assert len(kept(place, command)) > len(before)


def test_words_of_the_table_are_those_of_the_language(place: Path) -> None:
    isoscope(place, "spaces", *FEW)
    found = {*pd.read_parquet(place / "spaces/words.parquet")["form"]}
    assert {"昨天", "老师", "讨厌", "新书", "电影"} < found
    counts = pd.read_parquet(place / "spaces/counts.parquet")["words"]
    assert counts[0] == f"in the table, split by {words.installed()}"


def test_without_the_extra_there_are_bags_of_characters_and_one_line(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "installed", lambda: None)
    assert isoscope(place, "geometry", *PROBES, "--labels", "类别")["words"] == words.CHARACTERS
    with pytest.raises(InputError, match=r"^zh\.csv, column '句子': Chinese without spaces.*'isoscope\[segment\]'"):
        isoscope(place, "spaces", *FEW)
