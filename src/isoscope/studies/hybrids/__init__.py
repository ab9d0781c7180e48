"""Comparisons of hybrids: an encoder aligned to the encoder of a translation model, before its decoder."""

QUESTION = "Does an aligned encoder translate, and which similarity says so beforehand?"
TERMS = {
    "Starts of a hybrid": (
        "The encoder that a decoder reads: identity (mapped by nothing), procrustes (rotated), ridge (a linear "
        "map), trained (the encoder itself trained towards the target), itself (the decoder's own encoder)."
    ),
}
"""Term of its part of the page → what it means."""
