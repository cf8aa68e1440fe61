"""``lost-promises``: the part of its log or its votes that a voter has lost, until it has recovered it.

One line of JSON next to quorum-state. Kafka ignores the file. A file that cannot be read
counts as the worst case: the votes are unknown, and the log must reach the high watermark that the leader reports.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress

from barnabas.raft.voter_recovery import LostPromises
from barnabas.storage.checkpoint_file import sync_directory, write_atomically
from barnabas.storage.file_io import naming

__all__ = ["LOST_PROMISES", "LostPromisesFile"]

LOST_PROMISES = "lost-promises"
VERSION = 0

log = logging.getLogger(__name__)


class LostPromisesFile:
    def __init__(self, directory: str) -> None:
        self.path = f"{directory}/{LOST_PROMISES}"

    def read(self) -> LostPromises | None:
        """None when the voter has everything that it acknowledged."""
        try:
            with naming(self.path), open(self.path, "rb") as file:
                text = file.read()
        except FileNotFoundError:
            return None
        try:
            fields = json.loads(text)
            if fields["version"] != VERSION:
                raise ValueError(f"version {fields['version']!r} is not {VERSION}")
            return LostPromises(int(fields["endOffset"]), bool(fields["forgotVotes"]), str(fields["reason"]))
        except (ValueError, KeyError, TypeError) as error:
            log.error("%s: %s; this voter counts as having lost its votes", self.path, error)
            return LostPromises(0, forgot_votes=True, reason=f"{self.path} cannot be read")

    def add(self, lost: LostPromises) -> LostPromises:
        """Add a loss durably; returns it together with the earlier ones."""
        known = self.read()
        if known is not None:
            lost = LostPromises(
                max(known.end_offset, lost.end_offset), known.forgot_votes or lost.forgot_votes, lost.reason
            )
        fields = {
            "version": VERSION,
            "endOffset": lost.end_offset,
            "forgotVotes": lost.forgot_votes,
            "reason": lost.reason,
        }
        write_atomically(self.path, json.dumps(fields, separators=(",", ":")).encode())
        return lost

    def clear(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.path)
            sync_directory(os.path.dirname(self.path))
