"""``barnabas cluster``: describe the nodes, and run a cluster for development."""
