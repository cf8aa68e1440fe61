"""Keeps a node's data on disk in Kafka's layout: partition logs, the metadata log, their small files."""
