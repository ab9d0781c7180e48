"""Hyperparameter search with Optuna: workers claim trials, run them, and store the results."""
