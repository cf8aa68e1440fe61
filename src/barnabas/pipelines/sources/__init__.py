"""Data sources for Spark: the metadata log of any KRaft cluster, and audits of access decisions."""
