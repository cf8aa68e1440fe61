"""Decides what a worker does: the pure part of Connect's distributed mode."""
