"""Data sets: sources of labelled text, their manifests, tokens and batches, and the probe set."""
