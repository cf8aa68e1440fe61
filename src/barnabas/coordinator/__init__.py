"""Coordinators: a request becomes records and a response; only a committed record changes what is durable.

Nothing here reads a clock, draws randomness or does I/O: ``runtime`` meets the log through ports.
"""
