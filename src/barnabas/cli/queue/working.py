"""Run a command for each record that a share group delivers, several at a time, and settle the record by its status."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.exit_status import DONE, FAILED
from barnabas.cli.queue.receiving import joined, unless_stopped
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import ClientError
from barnabas.clients.membership.acknowledgements import AcknowledgeType
from barnabas.clients.network_client import NetworkClient

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.share.acquired_records import AcquiredRecord
    from barnabas.clients.share.config import ShareConfig
    from barnabas.clients.share.share_consumer import ShareConsumer

__all__ = ["WorkJob", "work_on_records"]

_LOOK_EVERY_S = 60.0
_RENEWS_PER_LOCK = 3
"""One lost renewal does not lose the lock."""
_LOCK_S = 30.0
_DONE = {
    AcknowledgeType.ACCEPT: "accepted",
    AcknowledgeType.RELEASE: "released",
    AcknowledgeType.REJECT: "rejected",
}


@dataclass(frozen=True, slots=True)
class WorkJob:
    group: str
    topic: str
    command: tuple[str, ...]
    jobs: int = 1
    count: int | None = None
    wait_s: float | None = None
    reject_status: int | None = None
    is_quiet: bool = False


@dataclass(slots=True)
class _Worked:
    """Counts of records by what became of them."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)

    def answer(self, job: WorkJob) -> Answer:
        total = sum(self.counts.values())
        parts = ", ".join(f"{count:,} {done}" for done, count in self.counts.items())
        text = f"worked on {total:,} record{'' if total == 1 else 's'}" + (f": {parts}" if parts else "")
        failed = total != self.counts["accepted"]
        return Answer(
            {}, notes=[] if job.is_quiet else [text], problems=self.problems, status=FAILED if failed else DONE
        )


async def work_on_records(client: ClientConfig, config: ShareConfig, job: WorkJob, stop: asyncio.Event) -> Answer:
    """Work until the end of the job or Ctrl-C. Raise AdminError, ClientError if it can't begin or go on."""
    worked = _Worked()
    async with NetworkClient(client) as network:
        consumer = await joined(network, job.group, job.topic, config)
        running: set[asyncio.Task[None]] = set()
        try:
            await _hand_out(consumer, job, worked, running, stop)
            if running:
                await asyncio.wait(running)
        finally:
            for task in running:
                task.cancel()  # Only by an error, or at the second Ctrl-C.
            await asyncio.gather(*running, return_exceptions=True)
            await consumer.close()
    return worked.answer(job)


async def _hand_out(
    consumer: ShareConsumer, job: WorkJob, worked: _Worked, running: set[asyncio.Task[None]], stop: asyncio.Event
) -> None:
    """Start a command for each record, as many at a time as the job says."""
    left = job.count
    while not stop.is_set() and left != 0 and not worked.problems:
        free = job.jobs - len(running)
        if not free:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            continue
        wait_s = _LOOK_EVERY_S if job.wait_s is None else job.wait_s
        records = await unless_stopped(consumer.receive(free if left is None else min(free, left), wait_s), stop)
        if not records and job.wait_s is not None and not running:
            return
        for record in records or ():
            task = asyncio.ensure_future(_work_on(consumer, job, record, worked))
            running.add(task)
            task.add_done_callback(running.discard)
        left = None if left is None else left - len(records or ())


async def _work_on(consumer: ShareConsumer, job: WorkJob, record: AcquiredRecord, worked: _Worked) -> None:
    """Run the command for a record, and settle the record."""
    renewing = asyncio.ensure_future(_keep(consumer, record))
    try:
        status = await _run(job.command, record)
    except OSError as error:
        worked.problems.append(Problem(f"the command can't be started: {error.strerror}", job.command[0]))
        status = None
    finally:
        renewing.cancel()
    type_ = _type_for(status, job.reject_status)
    try:
        outcome: Exception | None = (await consumer.acknowledge({record.id: type_}))[record.id]
    except (AdminError, ClientError) as error:
        outcome = error
    if outcome is None:
        worked.counts[_DONE[type_]] += 1
    else:
        worked.counts["lost"] += 1
        text = f"{_text(outcome)}; another member may work on it"
        worked.problems.append(Problem(text, str(record.id)))


def _type_for(status: int | None, reject_status: int | None) -> AcknowledgeType:
    if status == 0:
        return AcknowledgeType.ACCEPT
    is_rejected = status is not None and status == reject_status
    return AcknowledgeType.REJECT if is_rejected else AcknowledgeType.RELEASE


def _text(error: Exception) -> str:
    return (error.message or error.code.name) if isinstance(error, AdminError) else str(error)


async def _keep(consumer: ShareConsumer, record: AcquiredRecord) -> None:
    """Renew the lock on a record again and again. A failure shows when the record is settled."""
    while True:
        await asyncio.sleep((consumer.lock_timeout_s or _LOCK_S) / _RENEWS_PER_LOCK)
        try:
            await consumer.acknowledge({record.id: AcknowledgeType.RENEW})
        except (AdminError, ClientError):
            return


async def _run(command: tuple[str, ...], record: AcquiredRecord) -> int:
    """Run the command to its end, and return its exit status. It is ended if this task is cancelled. Raise OSError."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        env=os.environ | _environment(record),
        start_new_session=True,  # The first Ctrl-C is for this process only.
    )
    try:
        await process.communicate(record.record.value or b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode


def _environment(record: AcquiredRecord) -> dict[str, str]:
    stored = record.record
    found = {
        "BARNABAS_TOPIC": record.partition.topic,
        "BARNABAS_PARTITION": str(record.partition.partition),
        "BARNABAS_OFFSET": str(stored.offset),
        "BARNABAS_TIMESTAMP": str(stored.timestamp),
        "BARNABAS_DELIVERY_COUNT": str(record.delivery_count),
    }
    if stored.key is not None and b"\0" not in stored.key:
        found["BARNABAS_KEY"] = stored.key.decode(errors="surrogateescape")
    return found
