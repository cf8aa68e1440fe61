"""``barnabas plan``, ``apply`` and ``export``: the file of desired state."""
