"""Views of a study of fusions: hidden states, embeddings, attention, probes, remedies; in the report's order."""

from isoscope.base.view import under
from isoscope.studies.fusion import embedding_block, heads, layers, point_clouds, probing_scores, remedies, spectra

VIEWS = (
    *remedies.VIEWS,
    *under(
        "How do the sentences' vectors change during training?",
        point_clouds.DYNAMICS,
        layers.CURVES,
        layers.OWN,
        layers.LAYERS,
        spectra.SINGULAR_VALUES,
        spectra.RANKS,
    ),
    *under(
        "What do vectors after the embedding block hold?",
        embedding_block.MAP,
        embedding_block.PCA,
        embedding_block.EVIDENCE,
        embedding_block.READ_BACK,
        embedding_block.COSINE_MAPS,
        embedding_block.COSINES,
        embedding_block.DIMENSIONS,
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
    *under("Which shapes persist?", point_clouds.DIAGRAMS, point_clouds.BARCODES),
    *under("What can be read from the vectors?", *probing_scores.VIEWS),
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
