"""Transforms and predicates as DataFrame expressions."""
