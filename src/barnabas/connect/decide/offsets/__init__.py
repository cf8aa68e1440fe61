"""Positions of connectors: reading the rows of a request, and what a change of them means (KIP-875)."""
