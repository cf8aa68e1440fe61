"""Listeners of a node and their security."""
