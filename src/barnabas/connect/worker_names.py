"""Name the worker in a message that another worker shows: in a status, or in an answer that was forwarded."""

from __future__ import annotations

import re

__all__ = ["naming_worker"]

_THIS_WORKER = re.compile(r"\b([Tt])his worker\b")


def naming_worker(text: str, worker: str) -> str:
    """Return the text with ``worker host:port`` for "this worker"."""
    return _THIS_WORKER.sub(lambda found: f"{'W' if found[1] == 'T' else 'w'}orker {worker}", text)
