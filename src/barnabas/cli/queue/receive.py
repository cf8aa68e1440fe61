"""``barnabas queue receive``: acquire records of a queue, and print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from barnabas.cli.arguments.cluster_options import Count, Flag, running_command
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.arguments.time_options import parse_wait
from barnabas.cli.output.exit_status import INTERRUPTED
from barnabas.cli.queue.options import ADVICE, QueueOptions, Wanted, right_of
from barnabas.cli.records.options import one_topic

if TYPE_CHECKING:
    import asyncio

    from barnabas.cli.output.answer import Answer
    from barnabas.clients.client_config import ClientConfig

__all__ = ["receive"]


def receive(
    topic: str | None = None,
    *,
    group: Annotated[str, Parameter(name=["--group", "-g"])],
    max_: Annotated[Count, Parameter(name=["--max", "-n"])] = 1,
    wait: str = "10s",
    accept: Flag = False,
    options: QueueOptions | None = None,
) -> int:
    """Acquire records of a topic for a share group, and print them with their handles.

    No other member receives these records until they are released or their lock expires: after 30 seconds, unless the
    group's setting share.record.lock.duration.ms says otherwise. Accept, release, reject or renew them by their
    handles. A record that is delivered too often (group.share.delivery.count.limit, 5 times) is not delivered again.

    The records belong to a process in the background, the agent, which the command starts. It ends by itself a minute
    after its last record is settled or has expired. 'barnabas queue agents' shows it. A new group begins with records
    written from then on; 'barnabas configs alter --group billing --config share.auto.offset.reset=earliest' before
    its first use lets it begin with the first one.

    With --accept records are accepted when they are printed, without handles and without an agent.

    For example:

        barnabas queue receive orders --group billing
        barnabas queue receive orders --group billing --max 100 --wait 60s --output json
        barnabas queue receive orders --group billing --max 1000 --accept

    Parameters
    ----------
    topic
        The topic to read.
    group
        The share group. The first command for a group creates it.
    max_
        The maximum number of records. The command ends as soon as it has some of them; with --accept, all.
    wait
        How long to wait for a record, from joining the group on: 500ms, 10s, 5m, or 0s for those that exist.
    accept
        Accept the records at once.
    """
    options = options or QueueOptions()
    name = one_topic(topic)
    wait_s = parse_wait(wait, "--wait")
    from barnabas.cli.queue.printing import QueuePrinter
    from barnabas.cli.queue.receiving import receive_accepted, receive_held
    from barnabas.cli.records.consume import schema_readers

    printer = QueuePrinter(options.output or "text", schema_readers(options, schema_keys=False))
    wanted = Wanted(group, name, max_, wait_s, is_quiet=options.quiet)
    config = options.share_config(is_implicit=accept)
    properties = options.checked_properties()
    interrupted = False

    async def work(client: ClientConfig, stop: asyncio.Event) -> Answer:
        nonlocal interrupted
        try:
            if accept:
                return await receive_accepted(client, config, wanted, printer, stop)
            return await receive_held(client, properties, wanted, printer, stop)
        finally:
            interrupted = stop.is_set()

    answer = options.run_until_stopped(work, name, right=right_of(group, name), advice=ADVICE)
    status = answer.give(running_command.get(), "table")
    return INTERRUPTED if interrupted else status
