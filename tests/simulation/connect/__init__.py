"""A whole Connect group in one process and virtual time: herders, memberships, our group coordinator, the topics.

A seed determines everything: delays, lost requests, partitions, kills, clock jumps, refused writes, and the requests of
users. ``checks.py`` checks invariants continuously, and the complete state after a period without faults.
"""
