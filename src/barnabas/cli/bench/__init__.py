"""``barnabas bench``: measure a cluster."""
