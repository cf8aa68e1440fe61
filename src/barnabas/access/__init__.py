"""Explains who may do what, and why: pure, over a set of rules from wherever they come."""
