"""Words of tokenizers that do not split text before they merge: a sentence is not one word."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from isoscope.data import treebank
from isoscope.data.tokens import WordPieces
from probe_material import byte_level, whole

TEXTS = ["the film was good", "a  slow plot", "naïve 🎬 the film's end", "one", " the film "]
MERGES = [("t", "h"), ("th", "e"), ("▁", "the"), ("f", "i"), ("l", "m"), ("fi", "lm"), ("▁", "film"), ("▁", "a")]


def without_splitting(*, prepend: bool) -> Tokenizer:
    """A tokenizer like Llama 2's (`prepend`) and Gemma's: bytes for unknown letters, spaces as ▁."""
    letters = sorted("abcdefghijklmnoprstuvw'▁")
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters, *("".join(pair) for pair in MERGES)]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocabulary, MERGES, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    before: list[Any] = [normalizers.Prepend("▁")] if prepend else []
    tokenizer.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", "▁")])
    return tokenizer


def metaspace() -> Tokenizer:
    tokenizer = without_splitting(prepend=False)
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


@pytest.mark.parametrize(
    "tokenizer",
    [without_splitting(prepend=True), without_splitting(prepend=False), metaspace()],
    ids=["llama", "gemma", "metaspace"],
)
def test_words_end_at_spaces(tokenizer: Tokenizer) -> None:
    probe = whole(tokenizer, TEXTS)
    for number, text in enumerate(TEXTS):
        here = [place for place, sentence in enumerate(probe.words.sentence) if sentence == number]
        assert [probe.words.text[place] for place in here] == text.split()
        begins, ends = probe.words.begin[here], probe.words.end[here]
        assert begins[0] == 0
        assert begins[1:].tolist() == ends[:-1].tolist()
        for begin, end, word in zip(begins, ends, text.split(), strict=True):
            tokens = tokenizer.encode(text).tokens[begin:end]
            assert tokens.count("▁") <= 2, "spaces go with the word behind them"
            read = b"".join(bytes([int(one[3:5], 16)]) if one.startswith("<0x") else one.encode() for one in tokens)
            assert read.decode().replace("▁", "") == word


def test_a_word_is_the_same_word_wherever_it_stands() -> None:
    probe = whole(byte_level(), ["film the film", "the  film"] * 2)
    assert set(probe.words.text) == {"film", "the"}


@pytest.mark.parametrize("prepend", [True, False])
def test_a_treebanks_words_are_its_own_also_without_splitting(prepend: bool, tmp_path: Any) -> None:
    words = ["the", "film", "was", "good"]
    pq.write_table(
        pa.table({"tokens": [words], "upos": [["X"] * 4], "head": [[2, 4, 4, 0]]}), tmp_path / "bank.parquet"
    )
    pieces = WordPieces(without_splitting(prepend=prepend), 0, 300)
    bank = treebank.read(tmp_path / "bank.parquet", pieces, sentences=1, max_length=64, seed=0)
    assert bank.text == words
    assert bank.begin[1:].tolist() == bank.end[:-1].tolist()
