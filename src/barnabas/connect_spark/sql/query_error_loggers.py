"""PySpark's loggers of refused queries: they write each query with Java's trace, before the error is raised."""

from __future__ import annotations

import logging

__all__ = ["silence_query_errors"]

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def silence_query_errors() -> None:
    """Leave the report to whoever handles the error.

    ``PySparkLogger.getLogger`` is not used here: it changes logging's class of loggers for a moment, and two threads
    that do so at the same time leave every later logger of the process with a handler that writes JSON.
    """
    for name in _LOGGERS:
        logging.getLogger(name).disabled = True
