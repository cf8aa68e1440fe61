"""Encodes and decodes messages, in the form of Kafka 4.3."""
