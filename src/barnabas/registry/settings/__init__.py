"""The settings of a registry."""
