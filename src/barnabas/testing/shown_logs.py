"""The logs that the pytest plugin shows when a test fails: what nodes logged since the test began."""

from __future__ import annotations

from barnabas.testing.node_log import NodeLog

__all__ = ["begin_test", "node_ended", "node_started", "shown_logs"]

_LINES_SHOWN = 100

_running: dict[NodeLog, int] = {}
"""The length of each log when the test began, in bytes."""
_ended: list[tuple[str, str]] = []


def node_started(log: NodeLog) -> None:
    """Show this log. The log of a restarted node is shown already."""
    _running.setdefault(log, 0)


def node_ended(log: NodeLog) -> None:
    """Keep the text of the log: its file may be removed before the report of the test is written."""
    since = _running.pop(log, None)
    if since is not None:
        _ended.append((log.title, log.text(since)))


def begin_test() -> None:
    """Forget what was logged before."""
    _ended.clear()
    for log in _running:
        _running[log] = log.size()


def shown_logs() -> list[tuple[str, str]]:
    """Return title and last lines of each log that grew since the test began."""
    found = [*_ended, *((log.title, log.text(since)) for log, since in _running.items())]
    return [(title, "\n".join(text.splitlines()[-_LINES_SHOWN:])) for title, text in found if text.strip()]
