"""``barnabas transactions``: list transactions, and end hanging ones."""
