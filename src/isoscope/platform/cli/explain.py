"""Commands that say what would run, why, and how two results differ."""
