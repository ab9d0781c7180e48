"""Studies of penalties on anisotropy: curves over training, matched-effect comparison, published numbers."""

QUESTION = "How do the arms change during training?"
