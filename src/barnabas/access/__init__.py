"""Explains which access principals have, and why. Pure functions over a set of ACLs from any source."""
