"""``barnabas groups``: groups and their offsets."""
