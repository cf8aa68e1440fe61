"""Converters whose schemas are in a schema registry: Confluent's wire format for Avro, JSON Schema and Protobuf."""
