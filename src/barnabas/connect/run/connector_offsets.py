"""Show and change the positions of connectors (KIP-875): of sinks in their consumer group, of sources in the offset
topic. The connector's class may refuse a change before it is written.

These are the methods of ``Outside`` for offsets; ``worker_outside`` has the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.admin.partitions import OffsetSpec
from barnabas.clients.errors import ClientError
from barnabas.common.clock import Clock
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.herder.outside import ConfigMap
from barnabas.connect.decide.offsets.offset_changes import PartitionEnds, sink_changes, source_changes
from barnabas.connect.decide.offsets.sink_rows import sink_entry, sink_offsets, sink_row
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.tasks.task_work import check_spark_positions
from barnabas.connect.decide.validation.connector_rules import consumer_group_of
from barnabas.connect.entities import ConnectorOffset, ConnectorOffsets, OffsetChange
from barnabas.connect.errors import BadRequest, ConnectError
from barnabas.connect.identifiers import ConnectorType
from barnabas.connect.run.herder_tasks import HerderTasks
from barnabas.connect.run.internal_topics.worker_topics import SourceOffsets
from barnabas.connect.run.known_secrets import KnownSecrets

__all__ = ["ConnectorOffsetCalls"]

_RESET = "consumer.override.auto.offset.reset"
_TIMEOUT_S = 30.0
_NO_GROUP = (ErrorCode.GROUP_ID_NOT_FOUND,)
_IN_USE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)


class ConnectorOffsetCalls(HerderTasks):
    def __init__(
        self,
        clock: Clock,
        fail: Callable[[Exception], None],
        *,
        admin: AdminClient,
        sources: SourceOffsets,
        registry: PluginRegistry,
        secrets: KnownSecrets,
        offset_reset: str = "earliest",
    ) -> None:
        """``offset_reset`` is the worker's ``consumer.auto.offset.reset``."""
        super().__init__(asyncio.get_running_loop(), clock, fail)
        self._admin = admin
        self._sources = sources
        self._registry = registry
        self._secrets = secrets
        self._offset_reset = offset_reset

    async def read_offsets(self, connector: str, config: ConfigMap, type_: ConnectorType) -> ConnectorOffsets:
        return await self.call(self._read(connector, config, type_))

    async def alter_offsets(
        self, connector: str, config: ConfigMap, type_: ConnectorType, offsets: Sequence[ConnectorOffset]
    ) -> str:
        return await self.call(self._alter(connector, config, type_, offsets))

    async def reset_offsets(self, connector: str, config: ConfigMap, type_: ConnectorType) -> str:
        return await self.call(self._reset(connector, config, type_))

    async def preview_offsets(
        self, connector: str, config: ConfigMap, type_: ConnectorType, offsets: Sequence[ConnectorOffset]
    ) -> list[OffsetChange]:
        return await self.call(self._preview(connector, config, type_, offsets))

    async def _read(self, name: str, config: ConfigMap, type_: ConnectorType) -> ConnectorOffsets:
        if type_ is ConnectorType.SINK:
            offsets = await self._sink_offsets(consumer_group_of(name, config))
            return ConnectorOffsets([sink_entry(partition, offset) for partition, offset in sorted(offsets.items())])
        await self._sources.prepare(name, config)
        await self._sources.read_to_end(name)
        found = self._sources.offsets(name)
        return ConnectorOffsets(
            [ConnectorOffset(dict(offset.partition or {}), dict(offset.offset)) for offset in found]
        )

    async def _alter(
        self, name: str, config: ConfigMap, type_: ConnectorType, offsets: Sequence[ConnectorOffset]
    ) -> str:
        if type_ is ConnectorType.SINK:
            wanted = sink_offsets(offsets)
            if any(offset is not None and offset < 0 for offset in wanted.values()):
                raise ConnectError(f"Failed to modify offsets for sink connector {name}")
            is_known = await self._ask(config, wanted)
            await self._alter_sink(name, consumer_group_of(name, config), wanted)
        else:
            pairs = [(entry.partition, entry.offset) for entry in offsets]
            await self._sources.prepare(name, config)
            await self._sources.read_to_end(name)
            try:
                check_spark_positions(pairs, [known.partition for known in self._sources.offsets(name)])
            except ValueError as error:
                raise BadRequest(str(error)) from error
            is_known = await self._ask(config, pairs)
            await self._sources.write_source_offsets(
                name, [(partition, offset) for partition, offset in pairs if partition is not None]
            )
        return _sentence("altered", is_known=is_known)

    async def _reset(self, name: str, config: ConfigMap, type_: ConnectorType) -> str:
        if type_ is ConnectorType.SINK:
            group = consumer_group_of(name, config)
            is_known = await self._ask(config, dict.fromkeys(await self._sink_offsets(group)))
            results = await self._admin.delete_groups([group], timeout_s=_TIMEOUT_S)
            for error in results.errors.values():
                if error.code not in _NO_GROUP:
                    raise _refused(f"Failed to reset consumer group offsets for connector {name}", error)
        else:
            await self._sources.prepare(name, config)
            await self._sources.read_to_end(name)
            pairs = [(entry.partition, None) for entry in self._sources.offsets(name)]
            is_known = await self._ask(config, pairs)
            await self._sources.forget(name)
        return _sentence("reset", is_known=is_known)

    async def _preview(
        self, name: str, config: ConfigMap, type_: ConnectorType, offsets: Sequence[ConnectorOffset]
    ) -> list[OffsetChange]:
        """The connector's class is not called: it may change what it manages itself when it is asked."""
        if type_ is not ConnectorType.SINK:
            return source_changes(offsets, (await self._read(name, config, type_)).offsets)
        committed = await self._sink_offsets(consumer_group_of(name, config))
        partitions = set()
        for entry in offsets:
            with suppress(BadRequest):  # The row is named in the answer.
                partitions.add(sink_row(entry)[0])
        reset = config.get(_RESET) or self._offset_reset
        return sink_changes(offsets, committed, await self._ends(partitions), reset)

    async def _ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionEnds]:
        """Return the ends of the partitions that exist."""
        if not partitions:
            return {}
        try:
            first, end = [
                (await self._admin.list_offsets(dict.fromkeys(partitions, spec), timeout_s=_TIMEOUT_S)).values
                for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
            ]
        except (AdminError, ClientError, TimeoutError) as error:
            raise ConnectError(f"The ends of the partitions can't be read: {error}") from error
        return {
            partition: PartitionEnds(first[partition].offset, end[partition].offset)
            for partition in first.keys() & end.keys()
        }

    async def _ask(self, config: ConfigMap, offsets: Any) -> bool:
        """Call the connector's class; its exception becomes the response."""
        connector = self._registry.connector_class(config)
        resolved = await asyncio.to_thread(self._secrets.resolve, config)
        try:
            return bool(await asyncio.to_thread(connector.alter_offsets, resolved, offsets))  # type: ignore[attr-defined]
        except ConnectError:
            raise
        except Exception as error:  # A plugin may raise anything to refuse.
            raise ConnectError(self._secrets.hide(str(error)) or type(error).__name__) from error

    async def _sink_offsets(self, group: str) -> dict[TopicPartition, int]:
        try:
            found = await self._admin.list_group_offsets([group], timeout_s=_TIMEOUT_S)
        except (AdminError, ClientError, TimeoutError) as error:
            raise ConnectError(f"The offsets of group {group} can't be read: {error}") from error
        error_of_group = found.errors.get(group)
        if error_of_group is not None:
            if error_of_group.code in _NO_GROUP:
                return {}
            raise ConnectError(f"The offsets of group {group} can't be read: {error_of_group}")
        return {partition: committed.offset for partition, committed in found.values[group].values.items()}

    async def _alter_sink(self, name: str, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        set_ = {partition: offset for partition, offset in offsets.items() if offset is not None}
        forgotten = [partition for partition, offset in offsets.items() if offset is None]
        what = f"Failed to alter consumer group offsets for connector {name}"
        try:
            if set_:
                topics = sorted({partition.topic for partition in set_})
                (await self._admin.describe_topics(topics, timeout_s=_TIMEOUT_S)).raise_for_errors()
                (await self._admin.alter_group_offsets(group, set_, timeout_s=_TIMEOUT_S)).raise_for_errors()
            if forgotten:
                results = await self._admin.delete_group_offsets(group, forgotten, timeout_s=_TIMEOUT_S)
                for error in results.errors.values():
                    if error.code not in _NO_GROUP:
                        raise error
        except AdminError as error:
            raise _refused(what, error) from error
        except ExceptionGroup as group_of_errors:
            first = group_of_errors.exceptions[0]
            raise (_refused(what, first) if isinstance(first, AdminError) else ConnectError(what)) from group_of_errors
        except (ClientError, TimeoutError) as failure:
            raise ConnectError(f"{what}: {failure}") from failure


def _refused(what: str, error: AdminError) -> ConnectError:
    if error.code in _IN_USE:
        return ConnectError(
            f"{what} because its tasks are still members of the group. Wait until they have stopped, and try again"
        )
    return ConnectError(f"{what}: {error}")


def _sentence(done: str, *, is_known: bool) -> str:
    if is_known:
        return f"The offsets for this connector have been {done} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {done} successfully. However, if this "
        f"connector manages offsets externally, they will need to be manually {done} in the system that the connector "
        "uses."
    )
