"""Scripts without spaces have words by ICU's dictionaries; all other words are what they were."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import icu4py
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from isoscope.data import byte_pairs, manifest, tokens
from isoscope.data.corpus import Corpus
from isoscope.data.word_links import Translation
from isoscope.data.word_table import every_word, located, word_table
from isoscope.data.words import bag, installed, segmenter_of, words

FOUND = {
    "Chinese": "今天|天气|很好|我们|去|公园|散步|吧",
    "Japanese": "昨日|は|東京|の|図書館|で|面白い|本|を|読み|ま|した",
    "Thai": "เมื่อ|วาน|นี้|ฉัน|อ่าน|หนังสือ|ที่|ห้อง|สมุด|ใน|กรุงเทพ",
    "Lao": "ຂ້ອຍ|ອ່ານ|ປຶ້ມ|ຢູ່|ຫໍສະໝຸດ",
    "Khmer": "ខ្ញុំ|អាន|សៀវភៅ|នៅ|បណ្ណាល័យ",
    "Burmese": "ကျွန်တော်|စာကြည့်တိုက်|မှာစာ|အုပ်|ဖတ်|တယ်",
}
BY = f"icu4py {version('icu4py')}, ICU {icu4py.icu_version}"


def forms(text: str) -> list[str]:
    return [form for form, _, _ in words(text, segmented=True)]


@pytest.mark.parametrize("language, text", FOUND.items(), ids=FOUND)
def test_a_script_without_spaces_has_words_with_their_places(language: str, text: str) -> None:
    """A reader of the language finds these words; ICU says so too, and its places are those of characters."""
    whole = "😀 " + text.replace("|", "") + "。GPT-4"  # an emoji is two units of UTF-16
    assert forms(whole) == [*text.split("|"), "gpt-4"]
    assert [whole[begin:end] for _, begin, end in words(whole, segmented=True)] == [*text.split("|"), "GPT-4"]
    assert segmenter_of([whole], language) == installed() == BY


def test_letters_of_other_scripts_are_words_as_elsewhere_wherever_they_touch() -> None:
    assert forms("我用GPT-4写don't和3.5号") == ["我", "用", "gpt-4", "写", "don't", "和", "3", "5", "号"]
    assert forms("中-美 ก็") == ["中", "美", "ก็"]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_places_are_ascending_and_words_are_their_texts(text: str) -> None:
    last = 0
    for form, begin, end in words(text, segmented=True):
        assert last <= begin < end <= len(text)
        assert any(map(str.isalnum, form))
        last = end


@given(st.text(st.characters(max_codepoint=0xDFF, exclude_categories=["Cs"])))
def test_words_between_spaces_are_the_same_with_a_segmenter(text: str) -> None:
    assert words(text, segmented=True) == words(text)


def test_a_text_with_spaces_has_no_segmenter_even_if_it_has_some_chinese() -> None:
    for text in ("今天 天气 很 好 ， 我们 去 公园 散步", "She said 你好 to all of us", "나는 학생 입니다"):
        assert segmenter_of([text], "x") is None
        assert bag([text]).by is None
        table = word_table([text], occurrences=99, per_sentence=99, seed=0)
        assert table.by is None
        assert table.rows["form"].tolist() == [form for form, _, _ in words(text)]


TEXTS = ["今天天气很好，我们去公园散步吧。", "她昨天买了两本新书。", "😀我们喜欢看电影，也喜欢音乐。"]


def test_a_word_table_and_a_tokenizer_have_the_same_words(tmp_path: Path) -> None:
    tokenizer = tokens.train_wordpiece(TEXTS * 5, tmp_path / "t", vocab_size=200, lowercase=True)
    table = word_table(TEXTS, occurrences=99, per_sentence=25, seed=0, counted=TEXTS * 2)
    assert table.by == BY
    assert table.rows["frequency"].min() >= 2, "the counted texts are split alike"
    found = located(table, tokenizer, max_length=64)
    assert found.found.all()
    named = tokenizer.backend.id_to_token
    for row, begin, end in zip(table.rows.itertuples(), found.begin, found.end, strict=True):
        ids = found.encoded.ids[row.sentence][begin:end]
        assert "".join(named(int(one)).removeprefix("##") for one in ids) == row.form


def test_a_translation_without_spaces_is_linked_by_its_words() -> None:
    texts, there = ["good weather today"] * 3, ["今天天气很好"] * 3
    pairs = [f"{number} {text}" for number, text in enumerate(texts)], [f"{n}{t}" for n, t in enumerate(there)]
    table = word_table(pairs[0], occurrences=99, per_sentence=9, seed=0)
    linked = Translation(pairs[1], None, "b.csv").linked(pairs[0], table)
    assert table.by is None
    assert linked.table.by == BY
    expected = every_word([pairs[1][number] for number in table.drawn], BY)
    assert linked.table.rows.equals(expected.rows)
    assert {"今天", "天气", "很好"} < {*linked.table.rows["form"]}


def chinese() -> Corpus:
    """Labels by a word of two characters, each of which both classes have."""
    texts = [f"{'上海' if number % 2 else '海上'}有{number // 2}个人" for number in range(40)]
    table = pa.table({"sentence": texts, "label": [number % 2 for number in range(40)]})
    return Corpus(dict.fromkeys(("train", "validation", "test"), table), ("a", "b"), "x", "CC0-1.0", None, {})


def test_bags_have_the_words_of_the_table_and_the_manifest_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = manifest.write(chinese(), tmp_path / "with")
    assert found["words_by"] == BY
    assert found["baselines"]["tfidf_unigrams"]["test"]["accuracy"] == 1.0
    assert found["splits"]["train"]["words"]["max"] == len(forms("上海有19个人"))
    assert json.loads((tmp_path / "with/manifest.json").read_text("utf-8")) == found
    assert bag(["我们去公园"]).split("我们去公园") == ["我们", "去", "公园"]
    monkeypatch.setattr("isoscope.data.words.installed", lambda: None)
    without = manifest.write(chinese(), tmp_path / "without")
    assert str(without["words_by"]).startswith("single characters")
    assert without["baselines"]["tfidf_unigrams"]["test"]["accuracy"] == 0.5, "both classes have the same characters"


def test_a_pair_of_languages_has_words_in_both_texts() -> None:
    own = bag(["I like to read new books in the library"] * 9, ["我喜欢在图书馆看新书"] * 9)
    assert own.by == BY
    assert own.split("the library 图书") == ["the", "library", "图书"]


PARTS = [*FOUND["Thai"].split("|"), "เขา", "ชอบ", "กิน", "ข้าว", "กับ", "เพื่อน", "ที่", "ร้าน", "อาหาร"]


@pytest.mark.parametrize("train", [tokens.train_wordpiece, byte_pairs.train_bpe])
def test_a_tokenizer_of_a_script_without_spaces_learns_no_sentence_and_reads_long_texts(
    tmp_path: Path, train: Any
) -> None:
    """Each sentence is one "word": without a limit whole sentences became tokens, and above 100 letters [UNK]."""
    draw = np.random.default_rng(0)
    texts = ["".join(draw.permutation(PARTS)[:8]) for _ in range(40)]
    tokenizer = train(texts, tmp_path, vocab_size=600, lowercase=False)
    longest = "".join(texts)
    encoded = tokenizer.backend.encode(longest)
    assert "[UNK]" not in encoded.tokens
    assert max(map(len, tokenizer.backend.get_vocab())) < min(map(len, texts))
    assert AutoTokenizer.from_pretrained(tmp_path)(longest)["input_ids"] == encoded.ids


@pytest.mark.parametrize("train", [tokens.train_wordpiece, byte_pairs.train_bpe])
def test_a_tokenizer_of_texts_with_spaces_is_the_same_byte_by_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: Any
) -> None:
    texts = ["The quick brown fox", "Ein Hund läuft", "나는 학생 입니다", "今天 天气 很 好"] * 2 + [
        "no such rare thing"
    ]
    train(texts, tmp_path / "one", vocab_size=200, lowercase=True)
    for module in (tokens, byte_pairs):
        monkeypatch.setattr(module, "glued", lambda _: False)
    train(texts, tmp_path / "other", vocab_size=200, lowercase=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
