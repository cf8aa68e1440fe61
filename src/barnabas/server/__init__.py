"""Builds a node from its configuration: the only place that wires the parts together."""
