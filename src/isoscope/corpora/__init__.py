"""Corpora: where labelled text comes from, how it is described, tokenised and cut into batches."""
