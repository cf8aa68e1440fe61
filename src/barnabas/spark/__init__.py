"""Spark as a program that has to be found, fetched and started: Java, jars, the embedded session.

What runs on it lives above: analytics in ``pipelines``, tasks of connectors in ``connect.spark``.
"""
