"""Measures of clouds of representations: pure functions of arrays, no configuration, no files.

A cloud is `points` `[n, d]`, one representation a row. Arithmetic is in float64 whatever comes in.
"""
