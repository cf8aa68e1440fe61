"""Tasks as the herder sees them: the port of their runtime, their partitions and their work."""
