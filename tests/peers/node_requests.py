"""A small, valid request for each API that nodes use on a controller, in each of its versions.

The sender is an unregistered broker, so the requests change nothing.
"""

from __future__ import annotations

from typing import Any

from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from tests.peers.envelope_requests import envelope_of

__all__ = ["NODE_REQUESTS"]

_UNKNOWN = 977
_NEW = Uuid.from_int(0x977)

NODE_REQUESTS: dict[ApiKey, Any] = {
    ApiKey.ALTER_PARTITION: AlterPartitionRequest(broker_id=_UNKNOWN, broker_epoch=1),
    ApiKey.ENVELOPE: envelope_of(DescribeQuorumRequest(), 2),
    ApiKey.BROKER_REGISTRATION: BrokerRegistrationRequest(
        broker_id=_UNKNOWN, cluster_id="another", incarnation_id=_NEW, log_dirs=[_NEW]
    ),
    ApiKey.BROKER_HEARTBEAT: BrokerHeartbeatRequest(broker_id=_UNKNOWN, broker_epoch=1),
    ApiKey.ALLOCATE_PRODUCER_IDS: AllocateProducerIdsRequest(broker_id=_UNKNOWN, broker_epoch=1),
    ApiKey.CONTROLLER_REGISTRATION: ControllerRegistrationRequest(controller_id=_UNKNOWN, incarnation_id=_NEW),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: AssignReplicasToDirsRequest(broker_id=_UNKNOWN, broker_epoch=1),
}
