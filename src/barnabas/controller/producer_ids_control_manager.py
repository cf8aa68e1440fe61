"""Hand out blocks of producer ids, each to one broker."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.producer_ids_record import ProducerIdsRecord

__all__ = ["PRODUCER_ID_BLOCK_SIZE", "ProducerIdsBlock", "ProducerIdsControlManager"]

PRODUCER_ID_BLOCK_SIZE = 1000
_PRODUCER_ID_MAX = 2**63 - 1


class ProducerIdsBlock(NamedTuple):
    first: int
    size: int


class ProducerIdsControlManager:
    def __init__(self, state: ControllerState, cluster: ClusterControlManager) -> None:
        self._state = state
        self._cluster = cluster

    def generate_next_producer_ids(self, broker_id: int, broker_epoch: int) -> ControllerResult[ProducerIdsBlock]:
        self._cluster.check_broker_epoch(broker_id, broker_epoch)
        first = max(self._state.image.producer_ids.next_producer_id, 0)
        if first > _PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
            raise ApiException(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
            )
        record = ProducerIdsRecord(
            broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + PRODUCER_ID_BLOCK_SIZE
        )
        block = ProducerIdsBlock(first, PRODUCER_ID_BLOCK_SIZE)
        return ControllerResult([ApiMessageAndVersion(record, 0)], block)
