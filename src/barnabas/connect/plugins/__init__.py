"""Plugins: what their authors write, how they are found, and what their settings may be."""
