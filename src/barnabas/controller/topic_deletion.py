"""DeleteTopics: deletes a topic by its id, with its partitions and configs."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.common.errors import ApiError, ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.controller.mutation_quotas import UNLIMITED, MutationAllowance
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord

__all__ = ["UNKNOWN_TOPIC_ID", "delete_topics"]

UNKNOWN_TOPIC_ID = ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")


def delete_topics(
    state: ControllerState, topic_ids: Iterable[Uuid], allowance: MutationAllowance = UNLIMITED
) -> Steps[ControllerResult[dict[Uuid, ApiError]]]:
    records: list[ApiMessageAndVersion] = []
    results: dict[Uuid, ApiError] = {}
    pace = Pace()
    for topic_id in topic_ids:
        if pace.is_reached():
            yield
        topic = state.image.topics.by_id.get(topic_id)
        if topic is None:
            results[topic_id] = UNKNOWN_TOPIC_ID
        elif topic_id not in results:
            try:
                allowance.use(len(topic.partitions))
            except ApiException as error:
                results[topic_id] = ApiError.of(error)
                continue
            records.append(ApiMessageAndVersion(RemoveTopicRecord(topic_id=topic_id), 0))
            results[topic_id] = ApiError.NONE
    return ControllerResult(records, results)
