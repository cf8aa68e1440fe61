"""What the search (``tests.siege.search``) found to cost the most processor time for a byte."""

from __future__ import annotations

from tests.siege.entry import Entry

__all__ = ["FOUND"]

FOUND: tuple[Entry, ...] = ()
