"""The word table: one splitter, a bounded sample, where tokenizers have its words, and a join that names its faults."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.data.tokens import Tokenizer
from isoscope.data.word_table import KEY, WordTable, common, located, tags_at, word_table
from isoscope.data.words import words

TEXTS = [
    "The dog's well-known toy, really!",
    "A dog sees the dog.",
    "Stop!",
    "Ein Hund läuft über die Straße, 3 km weit.",
    "A dog sees the dog.",
]


@pytest.fixture
def table() -> WordTable:
    return word_table(TEXTS, occurrences=100, per_sentence=25, seed=0)


@pytest.fixture
def pieces(tmp_path: Path) -> Tokenizer:
    return tokens.train_wordpiece(TEXTS * 5, tmp_path / "tokenizer", vocab_size=120, lowercase=True)


def test_words_have_no_punctuation_but_apostrophes_and_hyphens_inside() -> None:
    assert [form for form, _, _ in words(TEXTS[0])] == ["the", "dog's", "well-known", "toy", "really"]
    assert [form for form, _, _ in words("(«Élan», l’été) — 3,5 a_b")] == ["élan", "l’été", "3", "5", "a", "b"]
    for form, begin, end in words(TEXTS[3]):
        assert TEXTS[3][begin:end].lower() == form


def test_repeated_sentences_and_single_words_are_left_out(table: WordTable) -> None:
    assert sorted(table.drawn) == [0, 1, 3]
    assert [table.texts[number] for number in range(3)] == [TEXTS[number] for number in table.drawn]
    counts = table.rows.groupby("sentence").size()
    assert sorted(counts) == sorted(len(words(text)) for text in table.texts)
    with pytest.raises(InputError, match="no sentence has two words"):
        word_table(["Stop!", ""], occurrences=10, per_sentence=5, seed=0)


def test_the_sample_is_bounded_by_sentence_seeded_and_in_order() -> None:
    texts = [" ".join(f"w{number}x{place}" for place in range(10)) for number in range(50)]
    table = word_table(texts, occurrences=60, per_sentence=4, seed=3)
    assert table.rows.groupby("sentence").size().tolist() == [4] * 15
    assert table.rows.sort_values(["sentence", "position"]).index.tolist() == list(range(60))
    pd.testing.assert_frame_equal(table.rows, word_table(texts, occurrences=60, per_sentence=4, seed=3).rows)
    assert list(table.drawn) != list(word_table(texts, occurrences=60, per_sentence=4, seed=4).drawn)


def test_frequencies_are_those_of_the_counted_text() -> None:
    table = word_table(TEXTS, occurrences=100, per_sentence=25, seed=0, counted=["Dog dog, DOG.", "the"])
    found = table.rows.drop_duplicates("form").set_index("form")["frequency"]
    assert (found["dog"], found["the"], found["sees"]) == (3, 1, 0)
    assert (word_table(TEXTS, occurrences=9, per_sentence=9, seed=0).rows["frequency"] == -1).all()


def test_a_word_has_the_tag_of_the_token_with_its_first_character() -> None:
    """Several words of a token, a token of several parts, punctuation between, "do n't", and repeated sentences."""
    tagged = [
        (["I", "do", "n't", ",", "see", "Los Angeles", "and/or", "(", "it", ")"], [*"abcdefghij"]),
        (["stop", "it"], ["k", "l"]),
        (["stop", "it"], ["m", "n"]),
    ]
    table = word_table(
        [" ".join(tokens) for tokens, _ in tagged], occurrences=100, per_sentence=25, seed=0, tagged=tagged
    )
    found = {form: "".join(own) for form, own in table.rows.groupby("form")["tag"]}
    expected = {"i": "a", "do": "b", "n't": "c", "see": "e", "los": "f", "angeles": "f", "and": "g", "or": "g"}
    its = found.pop("it")
    assert sorted(its) == ["i", "l"]
    assert found == expected | {"stop": "k"}
    assert (word_table(TEXTS, occurrences=9, per_sentence=9, seed=0).rows["tag"] == "").all()
    assert tags_at([0, 3, 5], ["ab", "c d"], ["x", "y"]) == ["x", "y", "y"]


def test_a_words_tokens_are_those_that_spell_it(pieces: Tokenizer, table: WordTable) -> None:
    found = located(table, pieces, max_length=64)
    assert found.found.all()
    for row, (sentence, begin, end) in enumerate(zip(found.sentence, found.begin, found.end, strict=True)):
        spelt = [pieces.backend.id_to_token(int(one)) for one in found.encoded.ids[sentence][begin:end]]
        form = pieces.backend.normalizer.normalize_str(table.rows["form"][row])
        assert "".join(one.removeprefix("##") for one in spelt) == form


def test_a_word_that_is_cut_off_is_not_found(pieces: Tokenizer, table: WordTable) -> None:
    whole, cut = located(table, pieces, max_length=64), located(table, pieces, max_length=8)
    assert 0 < cut.found.sum() < whole.found.sum()
    assert (whole.end[cut.found] < 8).all()
    assert (whole.end[~cut.found] > 7).all(), "also a word of which only a part fits"
    assert (cut.begin[~cut.found] == cut.end[~cut.found]).all()


def test_another_tokenizer_has_the_same_words(table: WordTable) -> None:
    """A tokenizer of characters, which knows no words."""
    alphabet = sorted({*"".join(TEXTS)})
    vocabulary = {name: number for number, name in enumerate(["[PAD]", "[UNK]", *alphabet])}
    backend = Backend(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    found = located(table, Tokenizer(backend, 0, len(vocabulary)), max_length=64)
    assert found.found.all()
    assert (found.end - found.begin == table.rows["form"].str.len()).all()


def keys(table: WordTable, found: bool = True) -> pd.DataFrame:
    return table.rows[KEY].assign(found=found)


def test_words_are_joined_by_key_and_lost_in_all_if_lost_in_one(table: WordTable) -> None:
    one, other = keys(table), keys(table)
    one.loc[2, "found"] = other.loc[5, "found"] = False
    kept = common(table, [one, other])
    assert np.flatnonzero(~kept).tolist() == [2, 5]


@pytest.mark.parametrize("fault", ["missing", "extra", "reordered", "other form"])
def test_rows_that_are_not_the_tables_are_refused(table: WordTable, fault: str) -> None:
    whole = keys(table)
    order = list(range(len(whole)))
    damaged = {
        "missing": whole.drop(4),
        "extra": pd.concat([whole, whole.tail(1)]),
        "reordered": whole.iloc[[*order[:4], order[5], order[4], *order[6:]]],
        "other form": whole.assign(form=whole["form"].where(np.array(order) != 4, "cat")),
    }[fault]
    with pytest.raises(InputError, match="states of model 2: their rows are not the words of the word table"):
        common(table, [whole, damaged.reset_index(drop=True)])
