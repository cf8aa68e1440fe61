"""What the commands tell a shell. Every command that asks a cluster keeps to it; ``barnabas access`` too.

130 (Ctrl-C) and 141 (whoever reads us has gone) are as a shell reports them.
"""

from __future__ import annotations

__all__ = ["DENIED", "DONE", "FAILED", "INTERRUPTED", "TABLE", "USAGE_ERROR"]

DONE = 0
FAILED = 1
USAGE_ERROR = 2
DENIED = 3
INTERRUPTED = 130

TABLE = {
    DONE: "done, or answered",
    FAILED: "failed, or a part of it did: the cluster refused something, or can't be reached",
    USAGE_ERROR: "the command line makes no sense; nothing was asked for",
    DENIED: (
        "answered with no: `access explain` says denied, `plan` that something is to be done, `--forbid-new-access` "
        "that access would open, `reassign verify` that something is on its way"
    ),
}
