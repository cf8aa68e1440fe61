"""Benchmarks that run a real Apache Kafka and barnabas in turn on the same machine and report ratios."""
