"""``barnabas log-dirs``: show log directories, and move replicas between them."""
