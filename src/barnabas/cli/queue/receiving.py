"""Receive records of a queue, through an agent that holds them, or accepting them at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, TypeVar

from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.queue.agent_client import AgentGone, ask_agent, ensure_agent
from barnabas.cli.queue.printing import read_record
from barnabas.cli.records.printers import UnreadableRecord
from barnabas.cli.records.sink import StandardOutput
from barnabas.clients.membership.acknowledgements import AcknowledgeType
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.share.share_consumer import ShareConsumer
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.common.uuid import Uuid

if TYPE_CHECKING:
    from typing import Any

    from barnabas.cli.queue.options import Wanted
    from barnabas.cli.queue.printing import QueuePrinter
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.share.acquired_records import AcquiredRecord
    from barnabas.clients.share.config import ShareConfig

__all__ = ["joined", "receive_accepted", "receive_held", "unless_stopped"]

T = TypeVar("T")

_TRIES = 5
"""How often an agent may end at the moment at which it is reached."""
_AT_ONCE = 500
"""As many records as Kafka's consumers acquire at a time."""


async def receive_held(
    client: ClientConfig,
    properties: Mapping[str, str],
    wanted: Wanted,
    printer: QueuePrinter,
    stop: asyncio.Event,
) -> Answer:
    """Print records with their handles. Raise AdminError, ClientError."""
    bootstrap = ",".join(map(str, client.bootstrap))
    response = await unless_stopped(_by_agent(bootstrap, properties, wanted), stop)
    if response is None:
        return Answer({})
    records = [(document["handle"], read_record(wanted.topic, document)) for document in response["records"]]
    answer = _printed(printer, records, wanted)
    if records and not wanted.is_quiet:
        lock_s = response["lock_timeout_s"]
        kept = "1 record is" if len(records) == 1 else f"{len(records):,} records are"
        answer.notes = [*answer.notes, f"{kept} yours for {lock_s:g} s; 'barnabas queue renew' keeps them longer"]
    return answer


async def _by_agent(bootstrap: str, properties: Mapping[str, str], wanted: Wanted) -> dict[str, Any]:
    request = {"do": "receive", "count": wanted.count, "wait_s": wanted.wait_s}
    for _ in range(_TRIES):
        name = await ensure_agent(bootstrap, properties, wanted.group, wanted.topic)
        try:
            return await ask_agent(name, request)
        except AgentGone:
            continue
    raise OSError("the agent ends again and again: see its log in the folder of 'barnabas queue agents'")


async def receive_accepted(
    client: ClientConfig, config: ShareConfig, wanted: Wanted, printer: QueuePrinter, stop: asyncio.Event
) -> Answer:
    """Print records, which are accepted by the next call for records, and at the end. Raise AdminError, ClientError."""
    left = wanted.count
    answer = Answer({})
    async with NetworkClient(client) as network:
        consumer = await joined(network, wanted.group, wanted.topic, config)
        try:
            while left:
                records = await unless_stopped(consumer.receive(min(left, _AT_ONCE), wanted.wait_s), stop)
                if not records:
                    break
                answer = await _printed_or_released(consumer, printer, records, wanted)
                if answer.problems:
                    break
                left -= len(records)
            if left == wanted.count and not answer.problems:
                answer = _printed(printer, [], wanted)
        finally:
            await consumer.close()
    return answer


async def joined(network: NetworkClient, group: str, topic: str, config: ShareConfig) -> ShareConsumer:
    """Return a consumer that has begun to join the group. Raise AdminError for a topic that does not exist."""
    await TopicMetadataSource(network, topic).load()
    consumer = ShareConsumer(network, group, [topic], config, member_id=str(Uuid(os.urandom(16))))
    consumer.start()
    return consumer


async def unless_stopped(work: Coroutine[object, object, T], stop: asyncio.Event) -> T | None:
    """Return the result of work, or None after Ctrl-C."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        stopping.cancel()


async def _printed_or_released(
    consumer: ShareConsumer, printer: QueuePrinter, records: list[AcquiredRecord], wanted: Wanted
) -> Answer:
    """Print records; release them if that fails. Raise OSError."""
    is_printed = False
    try:
        answer = _printed(printer, [("", record) for record in records], wanted)
        is_printed = not answer.problems
        return answer
    finally:
        if not is_printed:
            await consumer.acknowledge({record.id: AcknowledgeType.RELEASE for record in records})


def _printed(printer: QueuePrinter, records: list[tuple[str, AcquiredRecord]], wanted: Wanted) -> Answer:
    if not records:
        notes = [] if wanted.is_quiet else [f"no record arrived within {wanted.wait_s:g} s"]
        return Answer({}, notes=notes)
    try:
        StandardOutput().write(printer.lines(records))
    except UnreadableRecord as error:
        return Answer({}, problems=[Problem(str(error), error.topic, advice=error.advice)])
    return Answer({})
