"""Sacrebleu's own test vectors, and laws of the scores."""

import math

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from isoscope.metrics.translation_scores import bleu_shares, translation_scores

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
    found = translation_scores(translations, ["x"] * len(references), references)
    assert found.bleu == pytest.approx(bleu, rel=1e-9)


def test_chrf_is_sacrebleus() -> None:
    found = translation_scores(["the cat sat", "a dog"], ["x", "x"], ["the cat sat", "the dog"])
    assert 0 < found.chrf < 100
    assert translation_scores(["a b"], ["x"], ["a b"]).chrf == pytest.approx(100.0)
    assert found.chrf_signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0")


def test_copies_and_lengths_are_counted() -> None:
    found = translation_scores(["a b", "c d"], ["a b", "e f"], ["a b c d", "c d"])
    assert (found.copied, found.sentences) == (0.5, 2)
    assert found.length_ratio == pytest.approx(4 / 6)
    assert "tok:13a" in found.signature


def test_shares_are_the_jackknife_of_corpus_bleu() -> None:
    """Against sacrebleu on the corpus without each sentence; short sentences need its smoothing."""
    draw = np.random.default_rng(0)
    words = np.array(["the", "a", "cat", "dog", "saw", "bird", "one", "two", "over", "under"])
    references = [" ".join(draw.choice(words, draw.integers(3, 12))) for _ in range(30)]
    translations = [" ".join(word if draw.random() < 0.7 else "x" for word in one.split()) for one in references]
    shares, metric, n = bleu_shares(translations, references), BLEU(), len(references)
    whole = metric.corpus_score(translations, [references]).score
    assert shares.mean() == pytest.approx(whole)
    for row in (0, 7, 29):
        kept = [place for place in range(n) if place != row]
        without = metric.corpus_score([translations[one] for one in kept], [[references[one] for one in kept]]).score
        other = metric.corpus_score(translations[1:], [references[1:]]).score
        assert shares[row] - shares[0] == pytest.approx((n - 1) * (other - without), abs=1e-8)


def test_with_few_matches_there_are_no_shares() -> None:
    """Without its only 4-gram, a corpus has a smoothed BLEU of another size."""
    assert np.isnan(bleu_shares(["a b c d", "x"], ["a b c d", "y"])).all()


def test_the_spread_of_shares_is_that_of_a_bootstrap_over_sentences() -> None:
    draw = np.random.default_rng(1)
    words = np.array(list("abcdefghij"))
    references = [" ".join(draw.choice(words, 8)) for _ in range(300)]
    translations = [" ".join(word if draw.random() < 0.8 else "x" for word in one.split()) for one in references]
    error = bleu_shares(translations, references).std(ddof=1) / np.sqrt(len(references))
    drawn = []
    for _ in range(200):
        rows = draw.integers(0, len(references), len(references))
        found = BLEU().corpus_score([translations[row] for row in rows], [[references[row] for row in rows]])
        drawn.append(found.score)
    assert error == pytest.approx(np.std(drawn), rel=0.15)  # a standard deviation of 200 draws is known to 5 %
