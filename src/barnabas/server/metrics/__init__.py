"""The metrics of a node and their endpoint."""
