"""A registry that runs: its topic, its group, its listeners."""
