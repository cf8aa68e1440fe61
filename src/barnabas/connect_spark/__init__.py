"""Connect's tasks on Spark: connectors, converters, transforms, queries and sessions. This module imports nothing."""
