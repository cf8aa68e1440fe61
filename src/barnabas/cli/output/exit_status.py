"""Exit statuses of every command that contacts a cluster, and of ``barnabas access``.

130 (Ctrl-C) and 141 (broken pipe) are the values that a shell reports.
"""

from __future__ import annotations

__all__ = ["DENIED", "DONE", "FAILED", "INTERRUPTED", "TABLE", "USAGE_ERROR"]

DONE = 0
FAILED = 1
USAGE_ERROR = 2
DENIED = 3
INTERRUPTED = 130

TABLE = {
    DONE: "success",
    FAILED: "complete or partial failure: the cluster refused a request, or is unreachable",
    USAGE_ERROR: (
        "invalid command line, or a file that can't be read; no request was sent (`storage`: 1, as in Kafka's tool)"
    ),
    DENIED: (
        "negative result: `access explain` finds access denied, `plan` finds changes, `--forbid-new-access` "
        "finds that access would open, `reassign verify` finds ongoing moves"
    ),
}
