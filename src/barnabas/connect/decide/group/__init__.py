"""Membership in the group of workers, and who gets which connector and task."""
