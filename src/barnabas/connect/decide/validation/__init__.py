"""Validation of connector configs."""
