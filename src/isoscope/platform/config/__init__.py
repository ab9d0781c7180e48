"""Typed configuration: every number that a user may change, defined once."""
