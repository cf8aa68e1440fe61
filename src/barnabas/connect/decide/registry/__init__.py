"""Plugins by name and version."""
