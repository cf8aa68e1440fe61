"""Converters by Connect's names: bytes in Kafka <-> typed columns of Spark."""
