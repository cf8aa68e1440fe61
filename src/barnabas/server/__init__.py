"""Builds a node from its configuration. No other package wires the parts together."""
