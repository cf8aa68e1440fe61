"""Consumers: partitions are fetched from their leaders, from offset to offset, alone or as a member of a group."""
