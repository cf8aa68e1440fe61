"""``barnabas connect`` and ``barnabas worker``: connectors, tasks and workers of Kafka Connect."""
