"""The probe set: held-out sentences, the same for all runs, with words at the tokenizer's positions."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from isoscope.base.errors import InputError
from isoscope.data.probe import draw_rows
from isoscope.data.tokens import WordPieces
from probe_material import chosen, pieces, sentences


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> WordPieces:
    return pieces(tmp_path_factory.mktemp("tokenizer"))


def table(*texts: str) -> pa.Table:
    return pa.table({"sentence": list(texts)})


def test_no_sentence_of_another_split_and_none_twice() -> None:
    split = table(*(f"s{number % 20}" for number in range(40)))
    rows = draw_rows(split, [table("s3"), table("s4", "s5")], share=1.0, most=None, seed=0)
    texts = split["sentence"].take(rows).to_pylist()
    assert sorted(texts) == sorted({f"s{n}" for n in range(20)} - {"s3", "s4", "s5"})


def test_the_draw_is_the_seeds_and_a_larger_one_holds_a_smaller_one() -> None:
    split = table(*(f"s{number}" for number in range(100)))
    half = draw_rows(split, [], share=0.5, most=None, seed=1)
    assert len(half) == 50
    assert set(draw_rows(split, [], share=0.5, most=10, seed=1)) < set(half)
    assert not np.array_equal(half, draw_rows(split, [], share=0.5, most=None, seed=2))


def test_words_are_where_their_tokens_are(tokenizer: WordPieces) -> None:
    probe = chosen(tokenizer, words=10_000)
    texts = [text for (text,) in probe.texts]
    counts = Counter(probe.words.sentence.tolist())
    for number, text in enumerate(texts):
        assert counts[number] == len(text.split()), text
    for sentence, begin, end, text in zip(*probe.words, strict=True):
        read = tokenizer.backend.decode(probe.encoded.ids[sentence][begin:end].tolist())
        assert read.replace(" ", "") == text
        assert begin >= 1, "[CLS] is no word"


def test_words_are_all_those_of_the_sentences_they_are_drawn_from(tokenizer: WordPieces) -> None:
    whole = Counter(chosen(tokenizer, words=10_000).words.sentence.tolist())
    few = chosen(tokenizer, words=30).words
    counts = Counter(few.sentence.tolist())
    assert all(counts[sentence] == whole[sentence] for sentence in counts)
    assert 30 <= len(few.text) < 30 + max(whole.values())
    more = chosen(tokenizer, words=60).words
    assert set(few.sentence) < set(more.sentence)


def test_shifted_sentences_have_two_neighbouring_words_changed_about(tokenizer: WordPieces) -> None:
    probe = chosen(tokenizer)
    assert 5 < len(probe.shifted.sentence) < len(probe.rows)
    for sentence, ids in zip(probe.shifted.sentence, probe.shifted.encoded.ids, strict=True):
        own = probe.encoded.ids[sentence]
        assert sorted(ids) == sorted(own)
        assert not np.array_equal(ids, own)
        words = tokenizer.backend.decode(own.tolist()).split()
        other = tokenizer.backend.decode(ids.tolist()).split()
        moved = [place for place, (a, b) in enumerate(zip(words, other, strict=True)) if a != b]
        assert len(moved) == 2
        assert moved[1] == moved[0] + 1


def test_the_digest_is_of_what_is_looked_at(tokenizer: WordPieces) -> None:
    changes = {}, {}, {"seed": 1}, {"table": sentences().slice(1)}
    same, again, *others = [chosen(tokenizer, **change).digest for change in changes]
    assert same == again
    assert same not in others


def test_too_little_text_and_room_is_refused(tokenizer: WordPieces) -> None:
    with pytest.raises(InputError, match="3 sentences that are in no other split"):
        draw_rows(table("a", "b", "c"), [], share=1.0, most=None, seed=0)
    with pytest.raises(InputError, match="max_length: 2 leaves no room"):
        chosen(tokenizer, max_length=2)
