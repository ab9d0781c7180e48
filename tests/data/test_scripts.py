"""A mark continues a word in every script; texts without spaces between words are known by their letters."""

import re
import sys
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest

from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.data.baselines import baselines
from isoscope.data.corpus import Corpus
from isoscope.data.scripts import glued, has_vowel_signs, language, marks, token_pattern, unspaced
from isoscope.data.word_links import Translation
from isoscope.data.word_table import located, word_table
from isoscope.data.words import CHARACTERS, bag, words
from probe_material import byte_level, whole

MARKED = {
    "hindi": "हिन्दी भाषा सीखना अच्छा है",
    "arabic": "كِتَابٌ جديد",
    "accents apart": unicodedata.normalize("NFD", "café naïve Ångström"),
    "hebrew": "שָׁלוֹם עוֹלָם",
    "tamil": "தமிழ் மொழி",
    "bengali": "বাংলা ভাষা",
    "yoruba": "ọmọ\u0301 náà",
    "persian": "می\u200cخواهم بروم",
    "vietnamese": unicodedata.normalize("NFD", "tiếng Việt"),
    "korean": "나는 학생 입니다",
}
UNSPACED = {
    "Chinese": "今天天气很好，我们去公园散步吧。",
    "Japanese": "今日は天気がいいので、公園へ散歩に行きます。",
    "Thai": "วันนี้อากาศดีมาก เราไปเดินเล่นที่สวนกันเถอะ",
    "Lao": "ມື້ນີ້ອາກາດດີຫຼາຍ",
    "Khmer": "ថ្ងៃនេះអាកាសធាតុល្អណាស់",
    "Burmese": "ယနေ့ရာသီဥတုကောင်းသည်။",
}
SEGMENTED = {
    "Chinese": "今天 天气 很 好 ， 我们 去 公园 散步 吧 。",
    "Thai": "วันนี้ อากาศ ดี มาก เรา ไป เดินเล่น ที่ สวน",
    "Burmese": "ယနေ့ ရာသီဥတု ကောင်း သည် ။",
}


def pieces(text: str) -> list[str]:
    return re.findall(token_pattern([text]), text)


@pytest.mark.parametrize("text", MARKED.values(), ids=MARKED)
def test_a_mark_continues_a_word_in_every_table_of_words(text: str) -> None:
    assert [text[begin:end] for _, begin, end in words(text)] == text.split()
    assert pieces(text) == text.split()


def test_a_word_is_the_same_word_whether_its_accents_are_apart() -> None:
    one, other = ([form for form, _, _ in words(unicodedata.normalize(form, "Café naïve"))] for form in ("NFC", "NFD"))
    assert one == other == ["café", "naïve"]


@pytest.mark.parametrize(
    "text", ["The dog's well-known toy, 3.5 a_b!", "Ein Hund läuft über die Straße.", "x", "", "’-"]
)
def test_texts_without_marks_have_the_same_pieces_as_before(text: str) -> None:
    assert pieces(text) == re.findall(r"(?u)\b\w+\b", text)
    assert [text[b:e] for _, b, e in words(text)] == re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", text)


def test_every_mark_of_unicode_is_one() -> None:
    pattern = re.compile(rf"[{marks()}]")
    every = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code))[0] == "M"}
    assert {one for one in map(chr, range(0x110000)) if pattern.match(one)} == every | {"\u200c", "\u200d"}


def test_a_bag_of_words_learns_a_word_that_differs_in_a_mark() -> None:
    """दिन and दीन differ in a vowel sign: without the signs both are two letters."""
    rows = pa.table({"sentence": ["दिन अच्छा", "दीन अच्छा"] * 8, "label": [0, 1] * 8})
    corpus = Corpus(dict.fromkeys(("train", "validation", "test"), rows), ("a", "b"), "x", "CC0-1.0", None, {})
    assert baselines(corpus)["tfidf_unigrams"]["test"]["accuracy"] == 1.0


@pytest.mark.parametrize("name, text", UNSPACED.items(), ids=UNSPACED)
def test_without_a_segmenter_texts_without_spaces_are_no_table_of_words(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "icu4py", None)
    assert language([text]) == name
    texts = [f"{text}{number}" for number in range(9)]
    with pytest.raises(
        InputError, match=rf"^a\.csv, column 'x': {name} without spaces.*'isoscope\[segment\]'.*a space"
    ):
        word_table(texts, occurrences=9, per_sentence=9, seed=0, origin="a.csv, column 'x'")
    table = word_table([f"a word {number}" for number in range(9)], occurrences=9, per_sentence=9, seed=0)
    with pytest.raises(InputError, match=rf"^b\.csv: {name} without spaces"):
        Translation(texts, None, "b.csv").linked([f"a word {number}" for number in range(9)], table)
    assert len(pieces(text)) > len(text) / 3, "a bag of words counts letters"
    assert bag(texts).by == CHARACTERS
    assert bag(texts).split(text) == pieces(text)


@pytest.mark.parametrize("text", [*SEGMENTED.values(), *MARKED.values(), "John 说 你好 to me and others", "", "123"])
def test_texts_with_spaces_are(text: str) -> None:
    assert unspaced([text]) is None


@pytest.mark.parametrize("name, text", MARKED.items(), ids=MARKED)
def test_vowel_signs_are_told_from_accents(name: str, text: str) -> None:
    assert has_vowel_signs([text]) == (name in ("hindi", "arabic", "hebrew", "tamil", "bengali", "yoruba", "persian"))


def test_sound_marks_of_japanese_are_no_accents() -> None:
    """In lower case WordPiece would write ば and ぱ as は."""
    assert has_vowel_signs(["ばす と ぱす と はす"])
    assert not has_vowel_signs(["はす と 花"])


@pytest.mark.parametrize("rows", [900, 1000, 1499, 2000, 3000])
@pytest.mark.parametrize("first", ["Thai", "English"])
def test_a_language_of_pairs_is_seen_whatever_their_number(rows: int, first: str) -> None:
    """Texts of pairs stand in turn, so that an even step would read one language alone."""
    pair = (UNSPACED["Thai"], "a film of two hours")
    assert glued([*(pair if first == "Thai" else pair[::-1])] * rows)
    assert not glued([pair[1]] * 2 * rows)


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("text", MARKED.values(), ids=MARKED)
def test_a_tokenizer_that_removes_accents_has_every_word(tmp_path: Path, text: str, lowercase: bool) -> None:
    texts = [text, f"{text} {text.split()[0]}"]
    tokenizer = tokens.train_wordpiece(texts * 5, tmp_path / "t", vocab_size=120, lowercase=lowercase)
    found = located(word_table(texts, occurrences=99, per_sentence=25, seed=0), tokenizer, max_length=64)
    assert found.found.all()


@pytest.mark.parametrize("text", MARKED.values(), ids=MARKED)
def test_a_probe_word_keeps_its_marks_where_the_tokenizer_splits_them(text: str) -> None:
    """GPT-2 splits between letters and marks."""
    assert [word.strip() for word in whole(byte_level(), [text]).words.text] == text.lower().split()
