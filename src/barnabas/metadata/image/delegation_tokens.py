"""Delegation tokens by token id, and how many each principal has.

The HMAC is not stored: every node computes it from the shared secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from barnabas.metadata.image.keyed_records import KeyedRecordsDelta, KeyedRecordsImage
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.metadata.persistent_map import PersistentMap
from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord
from barnabas.protocol.records.remove_delegation_token_record import RemoveDelegationTokenRecord

__all__ = ["DelegationTokensDelta", "DelegationTokensImage"]


class DelegationTokensImage(KeyedRecordsImage[str, DelegationTokenRecord]):
    __slots__ = ("_counts",)

    LOSS = "the delegation tokens"

    def __init__(
        self,
        by_key: PersistentMap[str, DelegationTokenRecord] | None = None,
        counts: PersistentMap[str, int] | None = None,
    ) -> None:
        """``counts`` belong to ``by_key``: without them all tokens are counted."""
        super().__init__(by_key)
        if counts is None:
            counts = PersistentMap(Counter(holder for token in self.by_key.values() for holder in _holders(token)))
        self._counts = counts

    def count_of(self, principal: str) -> int:
        """Return how many tokens the principal owns or has requested."""
        return self._counts.get(principal, 0)

    def counts_after(self, changes: Mapping[str, DelegationTokenRecord | None]) -> PersistentMap[str, int]:
        """Return the counts after these tokens were put, or removed (None). Only the changed tokens are read."""
        counts: dict[str, int] = {}
        for token_id, after in changes.items():
            before = self.by_key.get(token_id)
            for token, step in ((before, -1), (after, 1)):
                for holder in () if token is None else _holders(token):
                    counts[holder] = counts.get(holder, self.count_of(holder)) + step
        gone = [holder for holder, count in counts.items() if not count]
        return self._counts.updated({holder: count for holder, count in counts.items() if count}, gone)

    def is_supported(self, writer: RecordWriter) -> bool:
        return writer.metadata_version.is_delegation_token_supported


class DelegationTokensDelta(KeyedRecordsDelta[str, DelegationTokenRecord]):
    __slots__ = ()

    def replay(self, record: DelegationTokenRecord) -> None:
        self.put(record.token_id, record)

    def replay_remove(self, record: RemoveDelegationTokenRecord) -> None:
        self.remove(record.token_id)

    def apply(self) -> DelegationTokensImage:
        return DelegationTokensImage(self.applied(), self.image.counts_after(self.changes))


def _holders(token: DelegationTokenRecord) -> set[str]:
    return {token.owner, token.requester}
