"""Transforms and predicates by Connect's names, each an expression of Spark."""
