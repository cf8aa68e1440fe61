"""Explain which access principals have, and why, with pure functions over a set of ACLs from any source."""
