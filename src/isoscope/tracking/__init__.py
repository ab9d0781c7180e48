"""Tracking: the record of a run is the truth, MLflow its mirror, provenance what both cite."""
