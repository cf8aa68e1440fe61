"""``barnabas access``: explain who may do what."""
