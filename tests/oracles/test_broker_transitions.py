"""Our controller decides, in the same state, what a real controller wrote when brokers joined and left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.configuration_control_manager import ConfigurationControlManager
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.feature_control_manager import FeatureControlManager
from barnabas.controller.partition_election import PartitionElection
from barnabas.metadata.loader import CommittedBatch
from barnabas.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.register_broker_record import RegisterBrokerRecord
from tests.oracles.archives import unpack
from tests.oracles.test_metadata_image import DATA, LOG, committed_batches
from tests.unit.controller.partitions_of_broker import partitions_on

pytestmark = pytest.mark.oracle


CAUSES = (BrokerRegistrationChangeRecord, RegisterBrokerRecord)
AFTER_A_KILL = {772}
"""Offsets where a broker registered after an unclean stop (its request said so, which the log does not hold)."""


def transitions(batches: Sequence[CommittedBatch]) -> list[int]:
    """Return the positions of batches that change a broker's state together with partitions, or could have."""
    return [index for index, batch in enumerate(batches) if any(type(r) in CAUSES for r in batch.records)]


def elections_at(state: ControllerState, batch: CommittedBatch) -> list[Any]:
    config = ControllerConfig(node_id=3000, cluster_id="x")
    features = FeatureControlManager(state, config)
    cluster = ClusterControlManager(state, config, features)
    election = PartitionElection(state, cluster, ConfigurationControlManager(state, config))
    cause = next(r for r in batch.records if type(r) in CAUSES)
    existing = state.image.cluster.brokers.get(cause.broker_id)
    topics = state.image.topics
    held = list(partitions_on(topics, cause.broker_id))
    in_sync = [found for found in held if cause.broker_id in found[2].isr]
    if isinstance(cause, RegisterBrokerRecord):
        if existing is None or existing.incarnation_id == cause.incarnation_id:
            return []
        if batch.base_offset in AFTER_A_KILL:
            counted_on = [found for found in held if cause.broker_id in (*found[2].isr, *found[2].elr)]
            return [message for message, _ in election.broker_was_killed(cause.broker_id, counted_on)]
        return [message for message, _ in election.broker_leaves(cause.broker_id, in_sync)]
    if cause.fenced == 1 or cause.in_controlled_shutdown == 1:
        return [message for message, _ in election.broker_leaves(cause.broker_id, in_sync)]
    if cause.fenced == -1:
        arrives = election.broker_arrives(cause.broker_id, topics.partitions_of(topics.index.leaderless()))
        return [message for message, _ in arrives]
    return []


def test_elections_equal_those_of_the_real_controller(tmp_path: Path) -> None:
    unpack(DATA / "storage-a.tar.xz", tmp_path)
    batches = list(committed_batches((tmp_path / "storage-a" / "controller-3000" / LOG).read_bytes()))
    state = ControllerState()
    compared = 0
    positions = set(transitions(batches))
    for index, batch in enumerate(batches):
        if index in positions:
            written = [record for record in batch.records if type(record) is PartitionChangeRecord]
            assert by_partition(elections_at(state, batch)) == by_partition(written), f"offset {batch.base_offset}"
            compared += len(written)
        state.handle_commit([batch])
    assert compared == 205


def by_partition(records: list[PartitionChangeRecord]) -> list[PartitionChangeRecord]:
    return sorted(records, key=lambda record: (record.topic_id, record.partition_id))
