"""Find, fetch and start Spark: Java, jars, the embedded session.

Its users are in higher layers: analytics in ``pipelines``, tasks of connectors in ``connect.spark``.
"""
