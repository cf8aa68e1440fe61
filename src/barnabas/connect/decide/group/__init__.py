"""Membership in the group of workers, and the assignment of connectors and tasks to them."""
