"""``barnabas configs``: look at settings and change them."""
