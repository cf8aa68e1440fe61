"""The metadata hashes of groups (KIP-1101). Those of many partitions are computed in steps, between requests."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.stepped_work import SteppedWork, in_work

__all__ = ["MetadataHashes"]

_TOPICS = "topics"


class MetadataHashes:
    def __init__(self, view: ClusterView, work: SteppedWork) -> None:
        self._view = view
        self._work = work

    def of(self, group_id: str, topics: Iterable[str], now_ms: int) -> int:
        """Return the hash of a group's topics; raises COORDINATOR_LOAD_IN_PROGRESS while many are read for that."""
        if not self._view.is_long_to_hash(topics):
            return self._view.metadata_hash(topics)
        key = (group_id, _TOPICS)
        if not self._work.is_running(key):
            self._work.start(key, in_work(self._view.prepare_hash_in_steps(topics)), now_ms)
        raise ApiException(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The topics of the group are still being read.")

    def known(self, topics: Iterable[str]) -> int | None:
        """Return the hash, or None if many topics must be read for it."""
        return None if self._view.is_long_to_hash(topics) else self._view.metadata_hash(topics)
