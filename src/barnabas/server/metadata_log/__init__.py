"""Consumers of the committed metadata log: publishers and snapshots."""
