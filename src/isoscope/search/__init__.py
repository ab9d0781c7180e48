"""Hyperparameter search: trials in an Optuna study, the workers that run them, and their results."""
