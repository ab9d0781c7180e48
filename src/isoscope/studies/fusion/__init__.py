"""Studies of fusions (Li 2025): views of hidden states, embeddings, attention and probes, in the report's order."""

from isoscope.studies.fusion import (
    decision_rank,
    embedding_space,
    feature_dynamics,
    heads,
    layers,
    own_measures,
    persistence_diagrams,
    probing_scores,
    spectra,
    token_cosines,
)
from isoscope.studies.view import under

VIEWS = (
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
"""Processes draw these: functions of a view have a name in their module, because pickle finds them by it."""
