"""``barnabas shell``: the metadata in a snapshot or a log directory."""
