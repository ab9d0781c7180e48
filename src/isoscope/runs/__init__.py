"""What a run is: identity, record, lease, publication and restoration, on disk."""
