"""Kafka Connect's distributed mode: a worker whose tasks are Spark's streaming queries."""
