"""A member of a group of workers that runs nothing: it accepts its assignment, and revokes what the leader revokes. It
reads the same config topic as all members, and replaces a worker in tests of the group alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from barnabas.clients.client_config import client_config
from barnabas.clients.consumer.topic_consumer import ConsumerRecord
from barnabas.clients.network_client import NetworkClient
from barnabas.connect.decide.backing_stores.config_records import (
    connector_record,
    connector_removal,
    task_commit_record,
    task_record,
)
from barnabas.connect.decide.backing_stores.config_state import ConfigState, ConnectorConfigChanged, TargetStateChanged
from barnabas.connect.decide.group.connect_protocol import ProtocolVersion
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.connect.decide.group.membership_events import (
    Assigned,
    MembershipEvent,
    MembershipFailed,
    ReadConfigs,
    StopWork,
)
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.run.group_client import GroupClient
from barnabas.connect.run.internal_topics.topic_admin import config_topic
from barnabas.connect.run.internal_topics.topic_log import TopicLog

__all__ = ["ConnectMember"]


class ConnectMember:
    """``running`` is its assignment: connectors by name and tasks as ``name-0``."""

    def __init__(
        self,
        bootstrap: str,
        url: str,
        *,
        group: str,
        protocol: ProtocolVersion = ProtocolVersion.SESSIONED,
        **settings: Any,
    ) -> None:
        self.notices: list[MembershipEvent] = []
        self.running: set[str] = set()
        self.leader_url: str | None = None
        self._state = ConfigState()
        properties = {"bootstrap.servers": bootstrap, "client.id": f"connect-{url}"}
        topic = config_topic({"config.storage.topic": f"{group}-configs", "config.storage.replication.factor": 1})
        self._log = TopicLog(topic, properties, self._replay)
        self._network = NetworkClient(client_config(properties, source="test"))
        self.client = GroupClient(
            self._network,
            GroupSettings(group, url, protocol, **settings),
            snapshot=self._state.snapshot,
            on_notice=self._obey,
        )
        self._polling: asyncio.Task[None] | None = None
        self._reading: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._log.start()
        self._state.start()
        self.client.start()
        self._polling = asyncio.create_task(self._poll())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._polling is not None:
            self._polling.cancel()
        await self.client.close()
        await self._log.close()
        await self._network.close()

    async def leave(self) -> None:
        self.running.clear()
        await self.client.leave("the test is over")

    async def configure(self, connector: str, config: Mapping[str, str], *tasks: Mapping[str, str]) -> None:
        """Write the records as a leader does: the connector, its tasks, and then the commit."""
        ids = [ConnectorTaskId(connector, number) for number in range(len(tasks))]
        await self._log.write([connector_record(connector, config)])
        await self._log.write([task_record(task, config) for task, config in zip(ids, tasks, strict=True)])
        await self._log.write([task_commit_record(connector, len(tasks))])

    async def remove(self, connector: str) -> None:
        await self._log.write(connector_removal(connector))

    async def until(self, condition: Callable[[], bool], what: str, *, timeout_s: float = 30) -> float:
        """Wait for the condition. Return the seconds it took."""
        began = time.monotonic()
        while not condition():
            failed = [notice for notice in self.notices if isinstance(notice, MembershipFailed)]
            assert not failed, failed
            assert time.monotonic() - began < timeout_s, f"not {what}: {self.running}, {self.notices[-3:]}"
            await asyncio.sleep(0.02)
        return time.monotonic() - began

    async def _poll(self) -> None:
        while True:
            self.client.poll("waiting")
            await asyncio.sleep(0.5)

    def _replay(self, record: ConsumerRecord) -> None:
        events = self._state.replay(record.key, record.value, record.offset)
        if any(not isinstance(event, ConnectorConfigChanged | TargetStateChanged) for event in events):
            self.client.request_rejoin("the configs have changed")

    def _obey(self, notice: MembershipEvent) -> None:
        self.notices.append(notice)
        if isinstance(notice, Assigned):
            assignment = notice.assignment
            self.running |= {*assignment.connectors, *map(str, assignment.tasks)}
            self.leader_url = assignment.leader_url
        elif isinstance(notice, StopWork):
            self.running -= {*notice.connectors, *map(str, notice.tasks)}
            self.client.work_stopped(notice.stop_id)
        elif isinstance(notice, ReadConfigs):
            reading = asyncio.create_task(self._read())
            self._reading.add(reading)
            reading.add_done_callback(self._reading.discard)

    async def _read(self) -> None:
        await self._log.read_to_end()
        self.client.configs_read()
