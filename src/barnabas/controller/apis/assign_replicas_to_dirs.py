"""AssignReplicasToDirs: CLUSTER_ACTION. A broker with several log directories reports which one holds a replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_cluster_action
from barnabas.controller.decision_turns import Turns
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),)


def handle(
    controller: QuorumController, context: RequestContext, request: AssignReplicasToDirsRequest, authorizer: Authorizer
) -> Deferred[AssignReplicasToDirsResponse]:
    def decide() -> Turns[AssignReplicasToDirsResponse]:
        require_cluster_action(authorizer, context)
        wanted = {
            (topic.topic_id, partition.partition_index): directory.id
            for directory in request.directories
            for topic in directory.topics
            for partition in topic.partitions
        }
        result = yield from controller.replication.alteration.assign_replicas_to_directories(
            request.broker_id, request.broker_epoch, wanted
        )
        errors = result.response
        response = AssignReplicasToDirsResponse(
            directories=[
                AssignReplicasToDirsResponseDirectoryData(
                    id=directory.id,
                    topics=[
                        AssignReplicasToDirsResponseTopicData(
                            topic_id=topic.topic_id,
                            partitions=[
                                AssignReplicasToDirsResponsePartitionData(
                                    partition_index=partition.partition_index,
                                    error_code=int(errors[topic.topic_id, partition.partition_index]),
                                )
                                for partition in topic.partitions
                            ],
                        )
                        for topic in directory.topics
                    ],
                )
                for directory in request.directories
            ]
        )
        return result.with_response(response)

    def answer_error(error: ApiException) -> AssignReplicasToDirsResponse:
        return AssignReplicasToDirsResponse(error_code=int(error.code))

    return controller.submit_in_turns(decide(), answer_error)
