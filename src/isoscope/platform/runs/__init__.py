"""Runs on disk: identity, record, lease, publication and restoration."""
