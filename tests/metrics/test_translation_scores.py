"""Sacrebleu's own test vectors, and laws of the scores."""

import math

import pytest

from isoscope.metrics.translation_scores import translation_scores

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


def test_copies_and_lengths_are_counted() -> None:
    found = translation_scores(["a b", "c d"], ["a b", "e f"], ["a b c d", "c d"])
    assert (found.copied, found.sentences) == (0.5, 2)
    assert found.length_ratio == pytest.approx(4 / 6)
    assert "tok:13a" in found.signature
