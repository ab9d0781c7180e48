"""Statistics for a handful of seeds: paired tests, intervals, jackknife, detectable effects, verdicts."""
