"""Reports the directories of this broker's replicas to the controller, in batches, until it has accepted each."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.ports import ControllerChannel
    from barnabas.broker.replica_directories import ReplicaDirectories
    from barnabas.broker.replication.directory_assignments import ReplicaKey
    from barnabas.common.uuid import Uuid

__all__ = ["DirectoryAssignmentSender"]

log = logging.getLogger(__name__)

_LINGER_S = 0.05
"""The wait for further assignments: a new topic has many replicas, which are reported in one request."""
_RETRY_S = 0.1
_RETRY_S_MAX = 10.0


class DirectoryAssignmentSender:
    def __init__(
        self,
        directories: ReplicaDirectories,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        controller: ControllerChannel,
    ) -> None:
        """``broker_epoch`` is -1 while the broker is not registered. During that time nothing is sent."""
        self._directories = directories
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._task: asyncio.Task[None] | None = None
        directories.on_assignment = self.wake

    def wake(self) -> None:
        """Start sending, because an assignment is waiting."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        assignments, delay = self._directories.assignments, _RETRY_S
        await asyncio.sleep(_LINGER_S)
        while assignments.is_due:
            if self._broker_epoch() >= 0 and await self._send():
                delay = _RETRY_S
                continue
            await asyncio.sleep(delay)
            delay = min(delay * 2, _RETRY_S_MAX)

    async def _send(self) -> bool:
        """Send one request. Return False if part of it must be retried."""
        assignments = self._directories.assignments
        wanted = assignments.next_request()
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), directories=_directories(wanted)
        )
        try:
            response = await self._controller.send(request)
            if response.error_code:
                raise ApiException(ErrorCode(response.error_code))
        except ApiException as error:
            log.info("cannot report the directories of %d replicas to the controller, retrying: %s", len(wanted), error)
            assignments.handle_failure()
            return False
        errors = _errors(response)
        for taken in assignments.handle_answer(errors):
            self._directories.handle_assigned(taken.key, taken.directory_id)
        return len(errors) == len(wanted) and not any(errors.values())


def _directories(wanted: Mapping[ReplicaKey, Uuid]) -> list[AssignReplicasToDirsRequestDirectoryData]:
    directories: dict[Uuid, AssignReplicasToDirsRequestDirectoryData] = {}
    topics: dict[tuple[Uuid, Uuid], AssignReplicasToDirsRequestTopicData] = {}
    for (topic_id, partition), directory_id in wanted.items():
        directory = directories.setdefault(directory_id, AssignReplicasToDirsRequestDirectoryData(id=directory_id))
        topic = topics.get((directory_id, topic_id))
        if topic is None:
            topic = topics[directory_id, topic_id] = AssignReplicasToDirsRequestTopicData(topic_id=topic_id)
            directory.topics.append(topic)
        topic.partitions.append(AssignReplicasToDirsRequestPartitionData(partition_index=partition))
    return list(directories.values())


def _errors(response: AssignReplicasToDirsResponse) -> dict[ReplicaKey, ErrorCode]:
    return {
        (topic.topic_id, partition.partition_index): ErrorCode(partition.error_code)
        for directory in response.directories
        for topic in directory.topics
        for partition in topic.partitions
    }
