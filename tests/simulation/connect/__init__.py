"""A whole Connect group in one process and virtual time: herders, memberships, our group coordinator, the topics.

A seed decides everything: delays, lost requests, partitions, kills, clocks that jump, writes that are refused, and what
users do. ``checks.py`` watches all the time and looks closely when all has been quiet for a while.
"""
