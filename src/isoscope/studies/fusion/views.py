"""Views of a study of fusions: hidden states, embeddings, attention, probes, remedies; in the report's order."""

from isoscope.base.view import under
from isoscope.studies.fusion import (
    decision_rank,
    embedding_space,
    feature_dynamics,
    heads,
    layers,
    own_measures,
    persistence_diagrams,
    probing_scores,
    remedies,
    spectra,
    token_cosines,
)

VIEWS = (
    *remedies.VIEWS,
    *under(
        "How do the sentences' vectors change during training?",
        feature_dynamics.DYNAMICS,
        layers.CURVES,
        own_measures.OWN,
        layers.LAYERS,
        decision_rank.SINGULAR_VALUES,
        decision_rank.RANKS,
    ),
    *under(
        "What do vectors after the embedding block hold?",
        embedding_space.MAP,
        embedding_space.PCA,
        embedding_space.EVIDENCE,
        embedding_space.READ_BACK,
        token_cosines.COSINE_MAPS,
        token_cosines.COSINES,
        embedding_space.DIMENSIONS,
    ),
    *under("Where does attention go?", heads.CURVES, heads.AGREEMENT, heads.HEADS),
    *under(
        "What does the fusion do?",
        spectra.SPECTRUM,
        spectra.MAGNITUDES,
        spectra.RESPONSE,
        spectra.GRADIENTS,
        spectra.KERNEL,
    ),
    *under("Which shapes persist?", persistence_diagrams.DIAGRAMS, persistence_diagrams.BARCODES),
    *under(
        "What can be read from the vectors?",
        probing_scores.LEARNING,
        probing_scores.PHASES,
        probing_scores.PROBING,
    ),
)
TESTED = {
    "differences": (
        "Differences inside the models at the chosen epoch: each arm minus the first arm, over the seeds that both "
        "have. Interval: paired t over seeds. p: corrected by Holm over the arms of a metric. Detectable: the "
        "difference that Holm's first step finds with the stated power. Measured on [CLS] at the last layer and on "
        "tokens after the embedding block."
    ),
}
"""Table of differences between arms → its caption."""
