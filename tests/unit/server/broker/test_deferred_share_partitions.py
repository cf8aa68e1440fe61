"""A broker makes its share-partitions when a member needs them."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.share.persister import NoPersister
from barnabas.broker.share.share_partition_config import SharePartitionConfig
from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.server.broker.deferred_share_partitions import DeferredSharePartitions


def deferred() -> DeferredSharePartitions:
    unused: Any = None
    return DeferredSharePartitions(
        SharePartitionConfig(max_share_sessions=7),
        replicas=unused,
        metadata=unused,
        clock=unused,
        new_persister=NoPersister,
    )


def test_nothing_is_made_before_it_is_needed() -> None:
    share_partitions = deferred()
    unused: Any = None
    share_partitions.publish(unused, unused, unused)
    share_partitions.stop()
    assert share_partitions.made is None
    assert share_partitions.get() is share_partitions.get() is share_partitions.made


@pytest.mark.anyio
async def test_without_a_persister_no_share_partition_is_loaded() -> None:
    persister = NoPersister()
    state = await persister.read_state("g", Uuid.from_int(1), 0, 1)
    outcome = await persister.write_state("g", Uuid.from_int(1), 0, 0, 1, 0, 0, ())
    assert state.error_code == outcome[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert state.error_message == outcome[1] == "This broker cannot store the state of share groups"
