"""Bytes to messages and back, as Kafka 4.3 writes them."""
