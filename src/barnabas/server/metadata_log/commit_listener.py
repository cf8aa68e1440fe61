"""Passes the committed metadata log to the node's two readers: the broker's image and the controller.

The broker's image is updated first: when the controller answers a caller, this node's broker already has the change.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.metadata.image.metadata_image import MetadataProvenance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.metadata.loader import CommittedBatch, MetadataLoader
    from barnabas.raft.ports import RecordSerde
    from barnabas.raft.ready import LeaderAndEpoch
    from barnabas.storage.snapshot_file import SnapshotReader

__all__ = ["MetadataListener"]

log = logging.getLogger(__name__)


class MetadataListener:
    """Implements the driver's ``RaftListener``."""

    def __init__(
        self,
        *,
        node_id: int,
        loader: MetadataLoader,
        controller: QuorumController | None,
        serde: RecordSerde,
        next_offset: Callable[[], int],
        kraft_version: Callable[[], int],
        on_leader_change: Sequence[Callable[[], None]] = (),
    ) -> None:
        """``on_leader_change``: called after the controller when the quorum has another leader, or none."""
        self._node_id = node_id
        self._loader = loader
        self._controller = controller
        self._serde = serde
        self._next_offset = next_offset
        self._kraft_version = kraft_version
        self._on_leader_change = on_leader_change

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> Iterator[None]:
        yield from self._loader.handle_commit_in_steps(batches)
        controller = self._controller
        if controller is not None:
            controller.features.kraft_version = self._kraft_version()
            if (
                controller.is_active
                or self._loader.in_transaction
                or not controller.follow(batches, self._loader.image)
            ):
                controller.handle_commit(batches)

    def handle_load_snapshot(self, reader: SnapshotReader) -> Iterator[None]:
        provenance = MetadataProvenance(
            last_contained_offset=reader.snapshot_id.offset - 1,
            last_contained_epoch=reader.snapshot_id.epoch,
            last_contained_log_time_ms=reader.last_contained_log_timestamp,
        )
        yield from self._loader.load_snapshot_in_steps(reader.records(self._serde), provenance, reader.size)
        if self._controller is not None:
            if self._controller.is_active:
                self._controller.deactivate()
            self._controller.load_snapshot(self._loader.image)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        if self._controller is not None:
            self._notify_controller(self._controller, leader)
        for notify in self._on_leader_change:
            notify()

    def _notify_controller(self, controller: QuorumController, leader: LeaderAndEpoch) -> None:
        if leader.is_leader(self._node_id):
            if controller.epoch == leader.epoch:
                return
            controller.deactivate()
            controller.features.kraft_version = self._kraft_version()
            controller.activate(leader.epoch, self._next_offset())
            log.info("this node is the active controller, in epoch %d", leader.epoch)
        else:
            controller.deactivate()
            controller.handle_leader_change(-1 if leader.leader_id is None else leader.leader_id)
