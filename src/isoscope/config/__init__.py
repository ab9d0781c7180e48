"""Typed configuration: every number a user may change, once."""
