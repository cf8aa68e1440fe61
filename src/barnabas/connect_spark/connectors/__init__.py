"""Connectors that come with the product."""
