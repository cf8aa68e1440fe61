"""``barnabas topics tail``: show the last records of a topic, and follow it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from barnabas.cli.arguments.cluster_options import Count
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.records.options import RecordOptions, one_topic

if TYPE_CHECKING:
    import asyncio

    from barnabas.cli.records.consuming import Consumed
    from barnabas.cli.records.sink import Output
    from barnabas.clients.client_config import ClientConfig

__all__ = ["tail"]


def tail(
    topic: str | None = None,
    *,
    lines: Annotated[Count, Parameter(name=["--lines", "-n"])] = 10,
    no_follow: Annotated[bool, Parameter(name=["--no-follow", "-e"], show_default=False)] = False,
    schema_keys: Annotated[bool, Parameter(show_default=False)] = False,
    options: RecordOptions | None = None,
) -> int:
    """Show the last records of all partitions of a topic, in the order of their times, and those that follow.

    The output is a table. --output text prints values, --output json the lines of 'barnabas consume'. Ctrl-C ends it.

    For example:

        barnabas topics tail orders
        barnabas topics tail orders --lines 100 --no-follow
        barnabas topics tail orders --output json
        barnabas topics tail orders --schema-registry http://localhost:8081

    Parameters
    ----------
    topic
        The topic to read.
    lines
        The number of records that exist already to show.
    no_follow
        End after these.
    schema_keys
        Decode keys with the schema registry too, not only values.
    """
    options = options or RecordOptions()
    name = one_topic(topic)
    from barnabas.cli.records.consume import consumer_settings, print_records, printer_of, schema_readers
    from barnabas.cli.records.text_lines import Columns

    settings = consumer_settings(options, None)
    printer = printer_of(options.output or "table", Columns(), schema_readers(options, schema_keys=schema_keys))

    async def work(config: ClientConfig, output: Output, stop: asyncio.Event) -> Consumed:
        from barnabas.cli.records.consuming import ConsumeJob
        from barnabas.cli.records.tailing import tail_records

        job = ConsumeJob(name, int(time.time() * 1000), follows=not no_follow)
        return await tail_records(config, settings, name, job, lines, printer, output, stop)

    return print_records(options, name, work, right=f"READ on Topic:{name}")
