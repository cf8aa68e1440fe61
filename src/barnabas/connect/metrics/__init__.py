"""Metrics of workers, connectors and tasks."""
