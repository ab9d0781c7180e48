"""The kind of every study: learning curves, confusion matrices, and the comparison of its arms on the test split."""

BASELINES = {
    "majority_class": "majority class",
    "mean_score": "mean score",
    "frequent_labels": "most frequent labels",
    "tfidf_unigrams": "TF-IDF, unigrams",
    "tfidf_bigrams": "TF-IDF, uni- and bigrams",
    "word_overlap": "word overlap",
    "frozen_head": "frozen encoder, linear head",
    "unigram": "Unigrams",
    "unigram_masked": "Unigrams without [SEP]",
    "trigram": "Trigrams, Kneser–Ney",
}
"""Baseline of a task's manifest, or of runs, → its name."""
TERMS = {
    "Fusion": (
        "How word and position embeddings become one vector: additive (their sum, as in BERT), conv2d (a "
        "convolution over both), fft (circular convolution by Fourier transforms); native: as the checkpoint has it."
    ),
    "Penalty": (
        "A term of the loss that rewards evenly long H0 bars of a batch's vectors (persistent entropy): of all bars, "
        "or of selected bars."
    ),
    "Loss": (
        "In nats per example, predicted token or label; of a score, its squared error; of an alignment, the squared "
        "error per dimension, plus its anchor."
    ),
    "BLEU, chrF": "Corpus scores of translations, from 0 to 100.",
}
"""Term of its part of the page → what it means."""
