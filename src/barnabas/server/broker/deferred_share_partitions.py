"""Stands in for the share-partitions until a member of a share group sends its first request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.share.share_partition_config import SharePartitionConfig
    from barnabas.broker.share.share_partition_manager import SharePartitionManager
    from barnabas.common.clock import Clock
    from barnabas.coordinator.share.persister import LeaderPersister
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest

__all__ = ["DeferredSharePartitions"]


class DeferredSharePartitions:
    """Part of the metadata publishers: share-partitions end when share.version becomes 0."""

    def __init__(
        self,
        config: SharePartitionConfig,
        *,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        clock: Clock,
        new_persister: Callable[[], LeaderPersister],
    ) -> None:
        self.made: SharePartitionManager | None = None
        self._config = config
        self._replicas = replicas
        self._metadata = metadata
        self._clock = clock
        self._new_persister = new_persister

    def get(self) -> SharePartitionManager:
        if self.made is None:
            from barnabas.broker.share.share_partition_manager import SharePartitionManager

            self.made = SharePartitionManager(
                self._config,
                replicas=self._replicas,
                metadata=self._metadata,
                persister=self._new_persister(),
                clock=self._clock,
            )
        return self.made

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        if self.made is not None:
            self.made.publish(delta, new_image, manifest)

    def stop(self) -> None:
        if self.made is not None:
            self.made.stop()
