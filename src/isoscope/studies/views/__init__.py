"""The views of the studies, in the order in which the report shows them."""

from isoscope.studies.views import (
    attention,
    confusion,
    dimensions,
    dynamics,
    embedding_space,
    evidence,
    gradients,
    heads,
    layers,
    learning,
    magnitudes,
    persistence,
    probing,
    rank_views,
    spectrum,
    tokens,
    training,
    trajectories,
)

RUNS = (training.TRAINING, confusion.CONFUSION)
"""What the runs of a study scored."""
INSIDE = (
    dynamics.DYNAMICS,
    trajectories.CURVES,
    layers.LAYERS,
    rank_views.SINGULAR_VALUES,
    rank_views.RANKS,
    embedding_space.MAP,
    embedding_space.PCA,
    evidence.EVIDENCE,
    tokens.COSINE_MAPS,
    tokens.COSINES,
    dimensions.DIMENSIONS,
    attention.CURVES,
    heads.AGREEMENT,
    attention.HEADS,
    spectrum.SPECTRUM,
    magnitudes.MAGNITUDES,
    spectrum.RESPONSE,
    gradients.GRADIENTS,
    spectrum.KERNEL,
    persistence.DIAGRAMS,
    persistence.BARCODES,
    learning.LEARNING,
    probing.PHASES,
    probing.PROBING,
)
"""What the arms of a study look like inside."""
