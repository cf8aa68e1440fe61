"""``barnabas plan``, ``apply`` and ``export``: compare, change and write a cluster by a file of desired state."""
