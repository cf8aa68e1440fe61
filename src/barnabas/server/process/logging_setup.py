"""Log lines on standard error: text for people, or one JSON object per line (``barnabas.log.format``)."""

from __future__ import annotations

import json
import logging
import sys
from typing import Protocol

from barnabas.common.printable import printable

__all__ = ["LoggingSettings", "configure_logging"]

_LEVELS = {"WARN": "WARNING"}


class _OneLine(logging.Formatter):
    """Formats a record as one line: text from a client can't start a line or control a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        message = printable(record.getMessage())
        line = f"{self.formatTime(record)} {record.levelname} {message} ({record.name})"
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            line += "".join(f"\n    {printable(part)}" for part in trace.split("\n"))
        return line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (access := getattr(record, "access", None)) is not None:
            entry["access"] = access
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry).replace("\x7f", "\\u007f")


class LoggingSettings(Protocol):
    """The logging settings of a node or of a Connect worker."""

    barnabas_log_format: str
    barnabas_log_level: str


def configure_logging(config: LoggingSettings) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if config.barnabas_log_format == "json" else _OneLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    level = config.barnabas_log_level.upper()
    root.setLevel(_LEVELS.get(level, level))
    logging.getLogger("asyncio").setLevel(logging.WARNING)
