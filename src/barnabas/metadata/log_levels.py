"""Shows and changes the levels of this process's loggers, for the config resource BROKER_LOGGER (KIP-412).

Loggers have the names at the end of log lines (``barnabas.network.listener``). A name applies to all loggers below it,
and ``root`` applies to all. Kafka's names are accepted too (``logger_aliases``). Levels have Kafka's names. A change is
not stored: it is in force until the node stops.
"""

from __future__ import annotations

import logging
from difflib import get_close_matches
from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.metadata.config_operations import ConfigOperation, OpType, check_operations
from barnabas.metadata.logger_aliases import LOGGER_ALIASES, logger_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.security.principal import Principal

__all__ = ["LEVELS", "ROOT", "alter_log_levels", "log_levels"]

log = logging.getLogger(__name__)

ROOT = "root"
LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def log_levels(names: Iterable[str] | None = None) -> list[tuple[str, str]]:
    """Return the effective level of every logger, sorted by name. ``names`` None or empty means all."""
    wanted = set(names or ())
    known = _known()
    shown = {name for name in wanted if name in known or logger_for(name)} if wanted else known | LOGGER_ALIASES.keys()
    return [(name, _level_of(_logger_name(name, known))) for name in sorted(shown)]


def alter_log_levels(operations: Sequence[ConfigOperation], *, who: Principal, validate_only: bool) -> None:
    """Change all levels, or raise ApiException with all errors and change none. The log names the principal."""
    check_operations(operations)
    known = _known()
    problems = [problem for operation in operations if (problem := _problem(operation, known)) is not None]
    if problems:
        raise ApiException(problems[0].code, "; ".join(map(str, problems)))
    if validate_only:
        return
    for operation in operations:
        name = _logger_name(operation.name, known)
        logger = logging.getLogger(None if name == ROOT else name)
        logger.setLevel(LEVELS[operation.value or ""] if operation.op == OpType.SET else logging.NOTSET)
    if operations:
        levels = ", ".join(_described(operation, known) for operation in operations)
        log.warning("%s changed log levels: %s", who, levels)


def _logger_name(name: str, known: set[str]) -> str:
    """Return the logger's name here. ``kafka``, which is also above the loggers of requests and audit, means all."""
    return name if name in known and name not in LOGGER_ALIASES else logger_for(name) or name


def _described(operation: ConfigOperation, known: set[str]) -> str:
    level = operation.value if operation.op == OpType.SET else ""
    name = _logger_name(operation.name, known)
    return f"{operation.name}={level}" + (f" ({name})" if name != operation.name else "")


def _known() -> set[str]:
    """Return loggers, and the names between them that were not used for logging yet."""
    return {ROOT, *logging.root.manager.loggerDict}


def _level_of(name: str) -> str:
    logger = logging.root if name == ROOT else logging.root.manager.loggerDict.get(name)
    if logger is None or isinstance(logger, logging.PlaceHolder):
        logger = logging.root.getChild(name)
    number = logger.getEffectiveLevel()
    return next((level for level, limit in LEVELS.items() if number <= limit), "FATAL")


def _problem(operation: ConfigOperation, known: set[str]) -> ApiException | None:
    if operation.op not in (OpType.SET, OpType.DELETE):
        kind = OpType(operation.op).name
        return ApiException(ErrorCode.INVALID_REQUEST, f"{kind} is not supported for log levels ({operation.name})")
    if operation.name not in known and logger_for(operation.name) is None:
        return ApiException(
            ErrorCode.INVALID_CONFIG, f"Logger {operation.name} does not exist!{_hint(operation, known)}"
        )
    if operation.op == OpType.DELETE and operation.name == ROOT:
        return ApiException(ErrorCode.INVALID_REQUEST, "The level of the root logger can't be removed, only set")
    if operation.op == OpType.SET and operation.value not in LEVELS:
        return ApiException(
            ErrorCode.INVALID_CONFIG,
            f"{operation.value!r} is not a level of {operation.name}; levels are {', '.join(LEVELS)}",
        )
    return None


def _hint(operation: ConfigOperation, known: set[str]) -> str:
    close = get_close_matches(operation.name, known | LOGGER_ALIASES.keys(), n=1, cutoff=0.8)
    return f" Did you mean {close[0]}?" if close else ""
