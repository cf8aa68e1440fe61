"""Partitions with several replicas: what a leader knows and decides. No I/O, no clock, no event loop."""
