"""``barnabas connect`` and ``barnabas worker``: manage connectors, and run workers of Kafka Connect."""
