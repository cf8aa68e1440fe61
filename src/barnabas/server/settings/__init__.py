"""Settings of a node: read, checked, derived and changed while it runs."""
