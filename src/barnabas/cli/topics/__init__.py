"""``barnabas topics``: topics, partitions and their offsets."""
