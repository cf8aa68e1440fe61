"""Serves clients: partitions, metadata, groups; forwards what the controller decides."""
