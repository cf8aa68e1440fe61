"""A producer: records go into batches, batches to the leaders of their partitions, several requests at a time."""
