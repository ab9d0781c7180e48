"""The probe set: held-out sentences, the same for all runs, with words at the tokenizer's positions."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers

from isoscope.base.errors import InputError
from isoscope.data import treebank
from isoscope.data.probe import draw_rows
from isoscope.data.tokens import Tokenizer
from probe_material import byte_level, chosen, pieces, sentences, whole


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
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


def test_words_are_where_their_tokens_are(tokenizer: Tokenizer) -> None:
    probe = chosen(tokenizer, words=10_000)
    texts = [text for (text,) in probe.texts]
    counts = Counter(probe.words.sentence.tolist())
    for number, text in enumerate(texts):
        assert counts[number] == len(text.split()), text
    for sentence, begin, end, text in zip(*probe.words, strict=True):
        read = tokenizer.backend.decode(probe.encoded.ids[sentence][begin:end].tolist())
        assert read.replace(" ", "") == text
        assert begin >= 1, "[CLS] is no word"


def test_words_are_all_those_of_the_sentences_they_are_drawn_from(tokenizer: Tokenizer) -> None:
    whole = Counter(chosen(tokenizer, words=10_000).words.sentence.tolist())
    few = chosen(tokenizer, words=30).words
    counts = Counter(few.sentence.tolist())
    assert all(counts[sentence] == whole[sentence] for sentence in counts)
    assert 30 <= len(few.text) < 30 + max(whole.values())
    more = chosen(tokenizer, words=60).words
    assert set(few.sentence) < set(more.sentence)


def test_shifted_sentences_have_two_neighbouring_words_changed_about(tokenizer: Tokenizer) -> None:
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


def test_the_digest_is_of_what_is_looked_at(tokenizer: Tokenizer) -> None:
    changes = {}, {}, {"seed": 1}, {"table": sentences().slice(1)}
    same, again, *others = [chosen(tokenizer, **change).digest for change in changes]
    assert same == again
    assert same not in others


def test_too_little_text_and_room_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="3 sentences that are in no other split"):
        draw_rows(table("a", "b", "c"), [], share=1.0, most=None, seed=0)
    with pytest.raises(InputError, match="max_length: 2 leaves no room"):
        chosen(tokenizer, max_length=2)


# Tokenizers that do not split text before they merge: a sentence is not one word.

UNSPLIT = ["the film was good", "a  slow plot", "naïve 🎬 the film's end", "one", " the film "]
MERGES = [("t", "h"), ("th", "e"), ("▁", "the"), ("f", "i"), ("l", "m"), ("fi", "lm"), ("▁", "film"), ("▁", "a")]


def without_splitting(*, prepend: bool) -> Backend:
    """A tokenizer like Llama 2's (`prepend`) and Gemma's: bytes for unknown letters, spaces as ▁."""
    letters = sorted("abcdefghijklmnoprstuvw'▁")
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters, *("".join(pair) for pair in MERGES)]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Backend(models.BPE(vocabulary, MERGES, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    before: list[Any] = [normalizers.Prepend("▁")] if prepend else []
    tokenizer.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", "▁")])
    return tokenizer


def metaspace() -> Backend:
    tokenizer = without_splitting(prepend=False)
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


@pytest.mark.parametrize(
    "backend",
    [without_splitting(prepend=True), without_splitting(prepend=False), metaspace()],
    ids=["llama", "gemma", "metaspace"],
)
def test_words_end_at_spaces(backend: Backend) -> None:
    probe = whole(backend, UNSPLIT)
    for number, text in enumerate(UNSPLIT):
        here = [place for place, sentence in enumerate(probe.words.sentence) if sentence == number]
        assert [probe.words.text[place] for place in here] == text.split()
        begins, ends = probe.words.begin[here], probe.words.end[here]
        assert begins[0] == 0
        assert begins[1:].tolist() == ends[:-1].tolist()
        for begin, end, word in zip(begins, ends, text.split(), strict=True):
            tokens = backend.encode(text).tokens[begin:end]
            assert tokens.count("▁") <= 2, "spaces go with the word behind them"
            read = b"".join(bytes([int(one[3:5], 16)]) if one.startswith("<0x") else one.encode() for one in tokens)
            assert read.decode().replace("▁", "") == word


def test_a_word_is_the_same_word_wherever_it_stands() -> None:
    probe = whole(byte_level(), ["film the film", "the  film"] * 2)
    assert set(probe.words.text) == {"film", "the"}


def test_spaces_whose_word_is_cut_off_are_no_word() -> None:
    backend = byte_level()
    text = "one two  four"
    for most in range(3, len(text) + 1):
        probe = chosen(Tokenizer(backend, 0, 300), table=pa.table({"sentence": [text] * 4}), max_length=most)
        assert {*probe.words.text} == {word for word in text.split() if text.index(word) + len(word) <= most}


def test_a_word_that_is_cut_off_is_no_word(tokenizer: Tokenizer) -> None:
    """Its first pieces would else be a word of their own, such as "s" of "scene"."""
    table = pa.table({"sentence": sentences()["sentence"].to_pylist()})
    for most in range(4, 12):
        probe = chosen(tokenizer, table=table, max_length=most, words=1000)
        known = {word for text in table["sentence"].to_pylist() for word in text.lower().split()}
        assert {*probe.words.text} <= known
        whole = chosen(tokenizer, table=table, max_length=64, words=1000)
        ends = {row: int(whole.words.end[whole.words.sentence == row].max()) for row in range(table.num_rows)}
        for row, end in ends.items():  # all words that are there whole are kept
            own = whole.words.end[(whole.words.sentence == row) & (whole.words.end <= most - 1)]
            assert probe.words.end[probe.words.sentence == row].tolist() == own.tolist(), (row, end)


@pytest.mark.parametrize("prepend", [True, False])
def test_a_treebanks_words_are_its_own_also_without_splitting(prepend: bool, tmp_path: Any) -> None:
    words = ["the", "film", "was", "good"]
    pq.write_table(
        pa.table({"tokens": [words], "upos": [["X"] * 4], "head": [[2, 4, 4, 0]]}), tmp_path / "bank.parquet"
    )
    pieces = Tokenizer(without_splitting(prepend=prepend), 0, 300)
    bank = treebank.read(tmp_path / "bank.parquet", pieces, sentences=1, max_length=64, seed=0)
    assert bank.text == words
    assert bank.begin[1:].tolist() == bank.end[:-1].tolist()
