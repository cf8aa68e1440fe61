"""The process that holds the records which ``barnabas queue receive`` has acquired.

A node keeps an acquired record for a member only while the connection of its share session is open (KIP-932). So a
record can't outlive the process that has acquired it, and this process is not the command: the commands of a script
reach it over a unix socket, by the handles of its records.

It has one topic of one group. It ends by itself when it holds no record and no command has used it for a while; the
nodes release what it still has. Its task arrives on standard input. The first line on standard output says whether it
is ready; after that it has none of the files of the process that started it.

Each connection has one request and one response, a line of JSON each.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sys
from base64 import b64encode
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from barnabas.cli.queue.agent_files import lock_path, socket_path
from barnabas.cli.queue.agent_task import AgentTask
from barnabas.cli.queue.handles import Handle
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.client_config import client_config
from barnabas.clients.errors import ClientError
from barnabas.clients.membership.acknowledgements import AcknowledgeType
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.share.acquired_records import AcquiredRecord, RecordId
from barnabas.clients.share.config import share_config
from barnabas.clients.share.share_consumer import ShareConsumer
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid

__all__ = ["main"]

_LOOK_EVERY_S = 0.5
_REQUEST_BYTES_MAX = 16 * 1024 * 1024


class Agent:
    """Answers the requests of commands. ``ended`` is set when one of them asks for the end."""

    def __init__(self, task: AgentTask, consumer: ShareConsumer) -> None:
        self.ended = asyncio.Event()
        self.is_ending = False
        self.used_at = asyncio.get_running_loop().time()
        self._task = task
        self._consumer = consumer
        self._given: dict[RecordId, int] = {}
        """The delivery counts of the records that commands have received."""
        self._receiving = asyncio.Lock()
        self._busy = 0

    @property
    def is_idle(self) -> bool:
        """Whether it holds no record, and no command has used it for a while."""
        if self._busy or self._consumer.held_until() is not None:
            return False
        return asyncio.get_running_loop().time() - self.used_at >= self._task.idle_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._busy += 1
        try:
            request = json.loads(await reader.readline())
            response = await self._answer(request, reader)
            writer.write(json.dumps(response).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass  # The command has ended meanwhile.
        finally:
            self._busy -= 1
            self.used_at = asyncio.get_running_loop().time()
            writer.close()

    async def _answer(self, request: Mapping[str, Any], reader: asyncio.StreamReader) -> dict[str, Any]:
        actions: dict[str, Callable[[], Coroutine[object, object, dict[str, Any]]]] = {
            "receive": lambda: _unless_gone(self._receive(request["count"], request["wait_s"]), reader),
            "acknowledge": lambda: self._acknowledge(request["type"], request["records"]),
            "describe": self._describe,
            "end": self._end,
        }
        if self.is_ending:
            return {"gone": True}
        try:
            return await actions[request["do"]]()
        except (AdminError, ClientError) as error:
            return {"error": error_document(error)}

    async def _receive(self, count: int, wait_s: float) -> dict[str, Any]:
        async with self._receiving:
            records = await self._consumer.receive(count, wait_s)
        self._given |= {record.id: record.delivery_count for record in records}
        return {
            "records": [self._document(record) for record in records],
            "lock_timeout_s": self._consumer.lock_timeout_s,
        }

    def _document(self, record: AcquiredRecord) -> dict[str, Any]:
        stored = record.record
        handle = Handle(self._task.name, record.partition.partition, stored.offset, record.delivery_count)
        return {
            "handle": str(handle),
            "partition": record.partition.partition,
            "offset": stored.offset,
            "timestamp": stored.timestamp,
            "delivery_count": record.delivery_count,
            "key": _encoded(stored.key),
            "value": _encoded(stored.value),
            "headers": [[name, _encoded(content)] for name, content in stored.headers],
        }

    async def _acknowledge(self, type_name: str, records: list[list[int]]) -> dict[str, Any]:
        """``records`` have partition, offset and delivery count. Return an error or None for each."""
        ids = [RecordId(TopicPartition(self._task.topic, partition), offset) for partition, offset, _ in records]
        current = {
            record_id: AcknowledgeType[type_name]
            for record_id, (_, _, count) in zip(ids, records, strict=True)
            if self._given.get(record_id) == count
        }
        results = await self._consumer.acknowledge(current) if current else {}
        outcomes = [_outcome(record_id, results) for record_id in ids]
        if current and AcknowledgeType[type_name] is not AcknowledgeType.RENEW:
            self._given = {record_id: count for record_id, count in self._given.items() if record_id not in current}
        return {"results": outcomes, "lock_timeout_s": self._consumer.lock_timeout_s}

    async def _describe(self) -> dict[str, Any]:
        until = self._consumer.held_until()
        left_s = 0.0 if until is None else until - asyncio.get_running_loop().time()
        return {
            "group": self._task.group,
            "topic": self._task.topic,
            "bootstrap": self._task.bootstrap,
            "process_id": os.getpid(),
            "held_for_s": round(max(0.0, left_s), 1),
        }

    async def _end(self) -> dict[str, Any]:
        self.ended.set()
        return {}


def _outcome(record_id: RecordId, results: Mapping[RecordId, AdminError | None]) -> dict[str, Any] | None:
    if record_id not in results:
        text = "the record is not acquired any more: its lock has expired, or it was settled before"
        return error_document(AdminError(ErrorCode.INVALID_RECORD_STATE, text))
    error = results[record_id]
    return None if error is None else error_document(error)


async def _unless_gone(work: Coroutine[object, object, dict[str, Any]], reader: asyncio.StreamReader) -> dict[str, Any]:
    """Await work, and cancel it when the command has ended. Raise OSError then."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ConnectionResetError
    finally:
        working.cancel()
        gone.cancel()


def error_document(error: Exception) -> dict[str, Any]:
    if isinstance(error, AdminError):
        item = None if error.item is None else str(error.item)
        return {"code": error.code.name, "message": error.message, "item": item}
    return {"message": str(error)}


def _encoded(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode()


async def _run(task: AgentTask, say: Callable[[dict[str, Any]], None]) -> None:
    properties = {
        **task.properties, "share.acquire.mode": "record_limit", "share.acknowledgement.mode": "explicit",
    }  # fmt: skip
    loop = asyncio.get_running_loop()
    async with NetworkClient(client_config(task.properties, bootstrap=task.bootstrap)) as network:
        await TopicMetadataSource(network, task.topic).load()
        consumer = ShareConsumer(
            network, task.group, [task.topic], share_config(properties), member_id=str(Uuid(os.urandom(16)))
        )
        agent = Agent(task, consumer)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, agent.ended.set)
        path = socket_path(Path(task.folder), task.name)
        path.unlink(missing_ok=True)  # Of an agent that was killed.
        server = await asyncio.start_unix_server(agent.serve, path, limit=_REQUEST_BYTES_MAX)
        try:
            consumer.start()
            say({"ready": True})
            await _until_not_needed(agent, consumer)
        finally:
            agent.is_ending = True
            path.unlink(missing_ok=True)
            server.close()
            await consumer.close()


async def _until_not_needed(agent: Agent, consumer: ShareConsumer) -> None:
    while not (agent.ended.is_set() or agent.is_idle or consumer.failure is not None):
        try:
            async with asyncio.timeout(_LOOK_EVERY_S):
                await agent.ended.wait()
        except TimeoutError:
            continue


def _say(document: dict[str, Any]) -> None:
    """Answer the process that has started this one, and let go of it."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def main() -> None:
    """Run an agent until it is not needed any more. The process that was started ends at once: its parent has to wait
    for it. The agent is its child, and belongs to no terminal."""
    task = AgentTask(**json.loads(sys.stdin.readline()))
    if os.fork():
        os._exit(0)
    with lock_path(Path(task.folder), task.name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            _say({"ready": False})  # Another one begins, or is about to end.
            return
        try:
            asyncio.run(_run(task, _say))
        except (AdminError, ClientError, OSError) as error:
            _say({"error": error_document(error)})


if __name__ == "__main__":
    main()
