"""Sacrebleu's own test vectors, and laws of the scores."""

import math
from importlib.util import find_spec

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from isoscope.metrics.translation_scores import bleu, bleu_shares, translation_scores
from refused import refused

# Sentence and reference of sacrebleu's own test of counts: 4, 2, 1, 0 of 6, 5, 4, 3 n-grams match. Exponential
# smoothing makes the last share 1 / (2 · 3); the brevity penalty is exp(1 − 8/6).
COUNTED = math.exp(1 - 8 / 6) * (4 / 6 * 2 / 5 * 1 / 4 * 1 / 6) ** (1 / 4)
VECTORS = [
    (["this is a test case", "aaaa bbbb cccc dddd"], ["this is a test case", "aaaa bbbb cccc dddd"], 100.0),
    (["am I am a character sequence"], ["I am a symbol string sequence a a"], 100 * COUNTED),
    (["", ""], ["The dog bit the man.", "It was not unexpected."], 0.0),
]


@pytest.mark.parametrize("translations, references, bleu", VECTORS)
def test_bleu_of_known_vectors(translations: list[str], references: list[str], bleu: float) -> None:
    found = translation_scores(translations, ["x"] * len(references), references, tokenize="13a")
    assert found.bleu == pytest.approx(bleu, rel=1e-9)


def test_chrf_is_sacrebleus() -> None:
    found = translation_scores(["the cat sat", "a dog"], ["x", "x"], ["the cat sat", "the dog"], tokenize="13a")
    assert 0 < found.chrf < 100
    assert translation_scores(["a b"], ["x"], ["a b"], tokenize="13a").chrf == pytest.approx(100.0)
    assert found.chrf_signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0")


def test_copies_and_lengths_are_counted() -> None:
    found = translation_scores(["a b", "c d"], ["a b", "e f"], ["a b c d", "c d"], tokenize="13a")
    assert (found.copied, found.sentences) == (0.5, 2)
    assert found.length_ratio == pytest.approx(4 / 6)
    assert "tok:13a" in found.signature


def test_shares_are_the_jackknife_of_corpus_bleu() -> None:
    """Against sacrebleu on the corpus without each sentence; short sentences need its smoothing."""
    draw = np.random.default_rng(0)
    words = np.array(["the", "a", "cat", "dog", "saw", "bird", "one", "two", "over", "under"])
    references = [" ".join(draw.choice(words, draw.integers(3, 12))) for _ in range(30)]
    translations = [" ".join(word if draw.random() < 0.7 else "x" for word in one.split()) for one in references]
    shares, metric, n = bleu_shares(translations, references, tokenize="13a"), BLEU(), len(references)
    whole = metric.corpus_score(translations, [references]).score
    assert shares.mean() == pytest.approx(whole)
    for row in (0, 7, 29):
        kept = [place for place in range(n) if place != row]
        without = metric.corpus_score([translations[one] for one in kept], [[references[one] for one in kept]]).score
        other = metric.corpus_score(translations[1:], [references[1:]]).score
        assert shares[row] - shares[0] == pytest.approx((n - 1) * (other - without), abs=1e-8)


def test_with_few_matches_there_are_no_shares() -> None:
    """Without its only 4-gram, a corpus has a smoothed BLEU of another size."""
    assert np.isnan(bleu_shares(["a b c d", "x"], ["a b c d", "y"], tokenize="13a")).all()


def test_the_spread_of_shares_is_that_of_a_bootstrap_over_sentences() -> None:
    draw = np.random.default_rng(1)
    words = np.array(list("abcdefghij"))
    references = [" ".join(draw.choice(words, 8)) for _ in range(120)]
    translations = [" ".join(word if draw.random() < 0.8 else "x" for word in one.split()) for one in references]
    error = bleu_shares(translations, references, tokenize="13a").std(ddof=1) / np.sqrt(len(references))
    drawn = []
    for _ in range(200):
        rows = draw.integers(0, len(references), len(references))
        found = BLEU().corpus_score([translations[row] for row in rows], [[references[row] for row in rows]])
        drawn.append(found.score)
    assert error == pytest.approx(np.std(drawn), rel=0.15)  # a standard deviation of 200 draws is known to 5 %


CHINESE = (
    ["今天天气很好。", "我们去公园散步。", "他在学校学习英语。", "这本书非常有意思。"],
    ["今天的天气很好。", "我们去公园里散步。", "他在学校里学习英语。", "这本书很有意思。"],
)


def test_bleu_of_chinese_counts_its_words() -> None:
    """With the words of English, a sentence is one word that never matches."""
    found = {name: translation_scores(CHINESE[0], CHINESE[1], CHINESE[1], tokenize=name) for name in ("13a", "zh")}
    assert found["13a"].bleu < 1
    assert found["zh"].bleu == pytest.approx(BLEU(tokenize="zh").corpus_score(CHINESE[0], [CHINESE[1]]).score)
    assert found["zh"].bleu > 50
    assert "tok:zh" in found["zh"].signature
    whole = [side * 5 for side in CHINESE]  # enough matches for a jackknife
    assert bleu_shares(*whole, tokenize="zh").mean() == pytest.approx(found["zh"].bleu)


@pytest.mark.parametrize(
    "tokenize, message",
    [
        ("ja-mecab", r"^objective\.tokenize: BLEU by 'ja-mecab' needs more packages.*sacrebleu\[ja\].*'char'$"),
        ("ko-mecab", r"^objective\.tokenize: BLEU by 'ko-mecab' needs more packages.*sacrebleu\[ko\].*'char'$"),
        ("chinese", r"^objective\.tokenize: expected one of .*zh.*, got 'chinese'$"),
    ],
)
def test_words_that_cannot_be_found_are_one_line(tokenize: str, message: str) -> None:
    if (tokenize == "ja-mecab" and find_spec("MeCab")) or (tokenize == "ko-mecab" and find_spec("mecab_ko")):
        pytest.skip("its packages are installed")
    with refused(message):
        bleu(tokenize)
