"""``barnabas groups``: manage groups and their offsets."""
