"""``barnabas configs``: show and change settings."""
