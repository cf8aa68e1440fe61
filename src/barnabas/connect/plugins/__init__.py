"""Plugins: the interface for their authors, their discovery, and their settings."""
