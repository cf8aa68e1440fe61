"""``barnabas transactions``: transactions and those that hang."""
