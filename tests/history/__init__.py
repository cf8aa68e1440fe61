"""Histories of clients that live through faults of real processes, and what they prove."""
