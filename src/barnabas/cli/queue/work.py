"""``barnabas queue work``: run a command for each record of a queue."""

from __future__ import annotations

import shutil
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated

from barnabas.cli.arguments.cluster_options import Count, UsageError, running_command
from barnabas.cli.arguments.parameter import Number, Parameter
from barnabas.cli.arguments.time_options import parse_wait
from barnabas.cli.output.exit_status import INTERRUPTED
from barnabas.cli.queue.options import ADVICE, QueueOptions, right_of
from barnabas.cli.records.options import hint, one_topic

if TYPE_CHECKING:
    import asyncio

    from barnabas.cli.output.answer import Answer
    from barnabas.clients.client_config import ClientConfig

__all__ = ["given_command", "work"]

given_command: ContextVar[tuple[str, ...]] = ContextVar("given_command", default=())
"""The words after ``--``: options of the command that runs for each record, not of this one."""

_Status = Annotated[int, Parameter(validator=Number(gte=1, lte=255))]


def work(
    topic: str | None = None,
    command: list[str] | None = None,
    *,
    group: Annotated[str, Parameter(name=["--group", "-g"])],
    jobs: Annotated[Count, Parameter(name=["--jobs", "-j"])] = 1,
    max_messages: Annotated[Count | None, Parameter(name=["--max-messages", "-n"])] = None,
    wait: str | None = None,
    reject_status: _Status | None = None,
    options: QueueOptions | None = None,
) -> int:
    """Run a command for each record of a topic, as a member of a share group.

    The command reads the value on its standard input, and the rest in its environment: BARNABAS_TOPIC,
    BARNABAS_PARTITION, BARNABAS_OFFSET, BARNABAS_TIMESTAMP, BARNABAS_DELIVERY_COUNT, and BARNABAS_KEY if the record
    has a key. Exit status 0 accepts the record, another one releases it: it is delivered again, to any member, up to
    the group's group.share.delivery.count.limit. The lock is renewed while the command runs.

    Ctrl-C lets the running commands end. A second one ends them, and their records are released. The exit status is 1
    if a record was released or rejected.

    For example:

        barnabas queue work orders --group billing -- ./bill
        barnabas queue work orders --group billing --jobs 4 --wait 30s -- sh -c 'curl -f -d @- http://localhost:8080'
        barnabas queue work orders --group billing --reject-status 65 -- ./bill

    Parameters
    ----------
    topic
        The topic to read.
    command
        The command and its arguments, after --.
    group
        The share group. The first command for a group creates it.
    jobs
        How many commands run at the same time.
    max_messages
        End after this number of records.
    wait
        End when no record has arrived for so long: 500ms, 10s, 5m. Default: wait for ever.
    reject_status
        Reject the record, instead of releasing it, when the command ends with this exit status.
    """
    options = options or QueueOptions()
    name = one_topic(topic)
    words = given_command.get() or tuple(command or ())
    if not words:
        raise UsageError("no command given: write it after --, as in: barnabas queue work orders --group g -- ./bill")
    if shutil.which(words[0]) is None:
        raise UsageError(f"{words[0]}: no such command")
    wait_s = None if wait is None else parse_wait(wait, "--wait")
    config = options.share_config(is_implicit=False)
    interrupted = False
    hint("waiting for records; Ctrl-C ends", options)

    async def run(client: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.queue.working import WorkJob, work_on_records

        nonlocal interrupted
        job = WorkJob(group, name, words, jobs, max_messages, wait_s, reject_status, is_quiet=options.quiet)
        try:
            return await work_on_records(client, config, job, stop)
        finally:
            interrupted = stop.is_set()

    answer = options.run_until_stopped(run, name, right=right_of(group, name), advice=ADVICE)
    status = answer.give(running_command.get(), "table")
    return INTERRUPTED if interrupted else status
