"""Hyperparameter search: which trials are run, by whom, and what became of them, in an Optuna study."""
