"""The kind of every study: learning curves, confusion matrices, and the comparison of its arms on the test split."""

BASELINES = {
    "tfidf_unigrams": "TF-IDF, unigrams",
    "tfidf_bigrams": "TF-IDF, uni- and bigrams",
    "unigram": "Unigrams",
    "unigram_masked": "Unigrams without [SEP]",
    "trigram": "Trigrams, Kneser–Ney",
}
"""Baseline of a task's manifest → its name."""
