"""Train a model: the loop, evaluation, checkpoints, observers and exact resume."""
