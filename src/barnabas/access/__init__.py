"""Explain who may do what, and why. Pure functions over a set of ACLs from any source."""
