"""Transforms, a predicate and a converter for the topics of a shop."""
