"""Log lines on standard error: text for people, or a JSON object a line (``barnabas.log.format``)."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.server.node_config import NodeConfig

__all__ = ["configure_logging"]

_LEVELS = {"WARN": "WARNING"}


class _OneLine(logging.Formatter):
    """What a client sent can never begin a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")
        line = f"{self.formatTime(record)} {record.levelname} {message} ({record.name})"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        import json

        entry = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure_logging(config: NodeConfig) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if config.barnabas_log_format == "json" else _OneLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    level = config.barnabas_log_level.upper()
    root.setLevel(_LEVELS.get(level, level))
    logging.getLogger("asyncio").setLevel(logging.WARNING)
