"""``barnabas shell``: browse the metadata in a snapshot or a log directory."""
