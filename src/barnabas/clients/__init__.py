"""Our own client: connections to any Kafka node."""
