"""A consumer without a group: partitions are fetched from their leaders, from offset to offset."""
