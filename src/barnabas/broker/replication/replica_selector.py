"""Chooses the replica that a consumer reads from (KIP-392): one in its rack, if the leader is in another rack.

Only followers in sync that have the requested offset qualify. The one with the most records is chosen. A client without
a rack, or in a rack without such a follower, reads from the leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.broker.replication.leader_replica import LeaderReplica
    from barnabas.broker.replication.replica_state import ReplicaState

__all__ = ["LEADER_SELECTOR", "RACK_AWARE_SELECTOR", "RackAwareReplicaSelector"]

LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LONG_AGO_MS = -1


class RackAwareReplicaSelector:
    """Implements Kafka's selector of the same name."""

    def __init__(self, metadata: MetadataCache, broker_id: int) -> None:
        self._metadata = metadata
        self._broker_id = broker_id

    def select(self, leader: LeaderReplica, fetch_offset: int, rack_id: str, listener_name: str) -> int:
        """Return the broker to read from; -1 for the leader, which is this broker."""
        brokers = self._metadata.image.cluster.brokers
        if not rack_id or brokers[self._broker_id].rack == rack_id:
            return -1
        isr = leader.leadership.isr
        near = [
            replica
            for broker_id, replica in leader.leadership.replicas.items()
            if broker_id in isr
            and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
            and self._metadata.endpoint(broker_id, listener_name) is not None
            and brokers[broker_id].rack == rack_id
        ]
        return max(near, key=_preference).broker_id if near else -1


def _preference(replica: ReplicaState) -> tuple[int, int, int]:
    caught_up_ms = _LONG_AGO_MS if replica.last_caught_up_ms is None else replica.last_caught_up_ms
    return replica.log_end_offset, caught_up_ms, replica.broker_id
