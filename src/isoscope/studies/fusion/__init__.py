"""Studies of fusions (Li 2025): hidden states of every snapshot, embeddings, attention, probes; remedies of fft."""

QUESTION = "What happens inside the models during training?"
STORES = ("states", "measures")
