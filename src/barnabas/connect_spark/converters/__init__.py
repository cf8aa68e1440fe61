"""Converters as DataFrame expressions."""
