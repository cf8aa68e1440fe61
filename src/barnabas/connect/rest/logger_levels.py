"""Levels of this process's loggers, listed and changed over REST (KIP-495, KIP-976).

Levels have Kafka's names; Python lacks TRACE, ALL and OFF, which are 5, 1 and 100 here. As in Kafka, a change applies
to every logger whose name *begins* with the given one, also without a dot after it. A change of ``root`` applies to
all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.connect.entities import LoggerLevel
from barnabas.connect.errors import NotFound

__all__ = ["LoggerLevels", "level_named", "level_number"]

log = logging.getLogger(__name__)

ROOT = "root"
_LEVELS = {
    "ALL": 1,
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": 100,
}


def level_named(name: str) -> str:
    """Return the level's name as shown. Raise NotFound, Kafka's answer to an unknown level."""
    if name.upper() not in _LEVELS:
        raise NotFound(f"invalid log level '{name}'.")
    return name.upper()


def level_number(name: str) -> int:
    """Return Python's number. Raise NotFound."""
    return _LEVELS[level_named(name)]


class LoggerLevels:
    """``root`` is the root of the managed loggers. ``now_ms`` is the wall clock."""

    def __init__(self, now_ms: Callable[[], int], root: logging.Logger | None = None) -> None:
        self._now_ms = now_ms
        self._root = logging.getLogger() if root is None else root
        self._last_modified: dict[str, int] = {}

    def all(self) -> dict[str, LoggerLevel]:
        """Return all loggers sorted by name, the root last, as in Kafka."""
        return {name: self._shown(logger) for name, logger in self._loggers().items()}

    def level(self, name: str) -> LoggerLevel:
        """Return the level. Raise NotFound for a logger that does not exist yet."""
        logger = self._loggers().get(name)
        if logger is None:
            raise NotFound(f"Logger {name} not found.")
        return self._shown(logger)

    def set_level(self, namespace: str, level: str) -> list[str]:
        """Return the names of the loggers whose level has changed, sorted. Raise NotFound for an unknown level."""
        wanted = level_number(level)
        log.info("the level of loggers that begin with %r is %s from now on", namespace, level.upper())
        loggers = self._loggers()
        chosen = (
            loggers if namespace == ROOT else {n: logger for n, logger in loggers.items() if n.startswith(namespace)}
        )
        if namespace != ROOT and namespace not in chosen and namespace:
            chosen[namespace] = self._root.manager.getLogger(namespace)
        # Read the levels of all loggers before any of them changes: children inherit from their parents.
        changed = {name: logger for name, logger in chosen.items() if logger.getEffectiveLevel() != wanted}
        for name, logger in changed.items():
            logger.setLevel(wanted)
            self._last_modified[name] = self._now_ms()
        return sorted(changed)

    def _loggers(self) -> dict[str, logging.Logger]:
        known = self._root.manager.loggerDict
        found = {name: logger for name, logger in sorted(known.items()) if isinstance(logger, logging.Logger)}
        return {**found, ROOT: self._root}

    def _shown(self, logger: logging.Logger) -> LoggerLevel:
        name = ROOT if logger is self._root else logger.name
        return LoggerLevel(_level_name(logger.getEffectiveLevel()), self._last_modified.get(name))


def _level_name(level: int) -> str:
    """Return the name of the highest level that is not above it."""
    return max((number, name) for name, number in _LEVELS.items() if number <= max(level, 1))[1]
