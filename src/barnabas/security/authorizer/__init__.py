"""Decides what a principal may do to a resource."""
