"""Run many runs in parallel, each in its own process, as many as fit."""
