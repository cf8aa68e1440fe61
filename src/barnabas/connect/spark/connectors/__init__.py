"""The connectors that come along."""
