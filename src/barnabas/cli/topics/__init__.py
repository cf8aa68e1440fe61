"""``barnabas topics``: manage topics, partitions and records."""
