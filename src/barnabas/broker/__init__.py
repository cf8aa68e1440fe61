"""Serves clients: partitions, metadata, groups. Forwards requests that the controller decides."""
