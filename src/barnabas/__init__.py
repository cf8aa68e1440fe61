"""A Kafka-compatible cluster in Python; this package root stays nearly empty because Spark executors import it."""

__all__ = ["__version__"]

__version__ = "0.2.0"
