"""The geometry of any checkpoints, side by side (`isoscope geometry`)."""

QUESTION = "What is the geometry of these checkpoints?"
