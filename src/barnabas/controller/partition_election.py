"""Changes partitions when one of their brokers arrives or departs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from barnabas.common.uuid import Uuid
from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.configuration_control_manager import ConfigurationControlManager
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.partition_change_builder import Election, PartitionChangeBuilder
from barnabas.controller.partition_walk import PartitionOf
from barnabas.metadata.image.configs import ConfigsImage
from barnabas.metadata.image.features import FeaturesImage
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.image.topics import TopicImage
from barnabas.metadata.metadata_version import MetadataVersion

__all__ = ["PartitionElection"]

NO_BROKER = -1


class _Rules(NamedTuple):
    """The election settings of a topic, valid as long as these values are those of the image."""

    topic: TopicImage
    configs: ConfigsImage
    features: FeaturesImage
    metadata_version: MetadataVersion
    min_isr: int
    is_unclean_enabled: bool
    is_elr_enabled: bool


class PartitionElection:
    def __init__(
        self, state: ControllerState, cluster: ClusterControlManager, configs: ConfigurationControlManager
    ) -> None:
        self._state = state
        self._cluster = cluster
        self._configs = configs
        self._rules: _Rules | None = None

    def broker_leaves(self, broker_id: int, partitions: Iterable[PartitionOf]) -> list[ApiMessageAndVersion]:
        """Remove a broker that is fenced, shut down cleanly or unregistered from the ISRs, and move its leaderships.

        It remains an eligible leader, unless ELR is disabled in the cluster.
        """
        return self._update(partitions, to_remove=broker_id)

    def broker_was_killed(self, broker_id: int, partitions: Iterable[PartitionOf]) -> list[ApiMessageAndVersion]:
        """Remove a broker from ISR and ELR: its log may have lost acknowledged records."""
        return self._update(partitions, unclean=broker_id)

    def directories_are_lost(
        self, broker_id: int, directories: Collection[Uuid], partitions: Iterable[PartitionOf]
    ) -> list[ApiMessageAndVersion]:
        """Handle failed log directories: replicas in them can neither lead nor be in sync."""
        lost = [found for found in partitions if found[2].directory_of(broker_id) in directories]
        return self._update(lost, to_remove=broker_id)

    def broker_arrives(self, broker_id: int, partitions: Iterable[PartitionOf]) -> list[ApiMessageAndVersion]:
        """Elect leaders after a broker is unfenced, also for partitions without a replica on it.

        An election may be possible now: settings change without an election.
        """
        return self._update(partitions, to_add=broker_id)

    def elected_by_their_records(self, partitions: Iterable[PartitionOf]) -> list[ApiMessageAndVersion]:
        """Elect leaders where an in-sync replica, an eligible one or the last known leader can lead now.

        No topic setting takes part.
        """
        builders = (self.builder_for(*found, self._cluster.is_active) for found in partitions)
        return [record for builder in builders if (record := builder.build()) is not None]

    def directories_are_unknown(self, broker_id: int, partitions: Iterable[PartitionOf]) -> list[ApiMessageAndVersion]:
        """Handle replicas that the broker reports in directories that it does not have, or no longer has."""
        return self._update(partitions, to_remove=broker_id)

    def has_leaderships(self, broker_id: int) -> bool:
        return self._state.image.topics.index.led_count(broker_id) > 0

    def builder_for(
        self,
        topic: TopicImage,
        partition_id: int,
        partition: PartitionRegistration,
        is_acceptable_leader: Callable[[int], bool],
        *,
        may_be_unclean: bool = False,
        moved: Mapping[int, Uuid] = MappingProxyType({}),
    ) -> PartitionChangeBuilder:
        """``may_be_unclean``: allow an unclean election, if the topic's settings permit it and no other is possible.

        ``moved``: the directories of replicas that this change moves.
        """
        directory_is_online = self._cluster.has_online_directory

        def may_lead(replica: int) -> bool:
            return (
                is_acceptable_leader(replica)
                and replica in partition.replicas
                and directory_is_online(replica, moved.get(replica, partition.directory_of(replica)))
            )

        rules = self._rules_of(topic)
        builder = PartitionChangeBuilder(
            partition,
            topic.id,
            partition_id,
            is_acceptable_leader=may_lead,
            metadata_version=rules.metadata_version,
            min_isr=rules.min_isr,
            is_elr_enabled=rules.is_elr_enabled,
        )
        if may_be_unclean and rules.is_unclean_enabled:
            builder.election = Election.UNCLEAN
        return builder

    def _rules_of(self, topic: TopicImage) -> _Rules:
        """Cache the last topic's settings: a leaving broker has thousands of partitions of few topics."""
        image, known = self._state.image, self._rules
        if known is not None and known.topic is topic:
            if known.configs is image.configs and known.features is image.features:
                return known
        settings = self._configs.election_settings(topic.name)
        self._rules = _Rules(
            topic,
            image.configs,
            image.features,
            image.features.metadata_version_or_throw(),
            min(settings.min_isr, len(topic.partitions[0].replicas)),
            settings.is_unclean_enabled,
            image.features.is_elr_enabled,
        )
        return self._rules

    def _update(
        self,
        partitions: Iterable[PartitionOf],
        *,
        to_remove: int = NO_BROKER,
        to_add: int = NO_BROKER,
        unclean: int = NO_BROKER,
    ) -> list[ApiMessageAndVersion]:
        gone = {to_remove, unclean} - {NO_BROKER}

        def is_acceptable_leader(replica: int) -> bool:
            return replica not in gone and (replica == to_add or self._cluster.is_active(replica))

        records = []
        for topic, partition_id, partition in partitions:
            builder = self.builder_for(topic, partition_id, partition, is_acceptable_leader, may_be_unclean=True)
            builder.target_isr = [replica for replica in partition.isr if replica not in gone]
            if unclean != NO_BROKER:
                builder.unclean_shutdown_replicas = (unclean,)
            record = builder.build()
            if record is not None:
                records.append(record)
        return records
