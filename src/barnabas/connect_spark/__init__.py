"""Connect's tasks on Spark: connectors, converters, transforms, queries, sessions. It imports no module of barnabas."""

import logging

logging.getLogger(__name__)
"""The logger exists from the worker's start. Levels are set by prefix, so it follows ``barnabas.connect``, and modules
of this package that are imported later inherit its level."""
