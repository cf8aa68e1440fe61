"""``barnabas connect offsets|alter-offsets|reset-offsets``: show and change offsets of connectors (KIP-875)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.connect.arguments import parse_offsets, read_offsets_file
from barnabas.cli.connect.options import WorkerChangeOptions, WorkerOptions, problem_of_request
from barnabas.cli.connect.tables import request_each
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.connect.rest.connect_client import ConnectClient, Document

__all__ = ["alter_offsets", "offsets", "reset_offsets"]

_STOP = "stop the connector first: 'barnabas connect stop {} --wait'"


def offsets(connector: str, *, options: WorkerOptions | None = None) -> int:
    """Show the offsets of a connector: those of a sink in its topics, those of a source in its input.

    For example:

        barnabas connect offsets orders
        barnabas connect offsets orders --output json > offsets.json

    Parameters
    ----------
    connector
        The name of the connector.
    """

    def work(worker: ConnectClient) -> Answer:
        found, problems = request_each([connector], worker.offsets)
        positions = found.get(connector, [])
        sheet = Sheet(columns=("partition", "offset"))
        for position in sorted(positions, key=_order):
            sheet.add(*_texts(position))
        notes = [] if positions or problems else [f"{connector} has no offsets"]
        document = {"connector": connector, "offsets": positions}
        return Answer(document, [sheet] if positions else [], notes, problems)

    return (options or WorkerOptions()).run(work)


def alter_offsets(
    connector: str,
    *,
    offset: list[str] | None = None,
    file: str | None = None,
    options: WorkerChangeOptions | None = None,
) -> int:
    """Set the offsets at which a stopped connector continues.

    For example:

        barnabas connect alter-offsets orders --offset orders-0=1041 --offset orders-1=none
        barnabas connect alter-offsets files-in --file offsets.json --dry-run

    Parameters
    ----------
    connector
        The name of the connector, which must be stopped.
    offset
        An offset of a sink, as topic-partition=offset, or =none to delete it. May be repeated.
    file
        A file of offsets, as 'offsets --output json' prints them; null deletes an offset. - is the standard input.
    """
    if bool(offset) == bool(file):
        raise UsageError("no offsets given: use --offset or --file")
    wanted = parse_offsets(offset) if offset else read_offsets_file(str(file))
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run

    def work(worker: ConnectClient) -> Answer:
        return _changed(
            worker,
            connector,
            wanted,
            lambda: worker.alter_offsets(connector, wanted),
            dry_run=dry_run,
        )

    return options.run(work)


def reset_offsets(connector: str, *, options: WorkerChangeOptions | None = None) -> int:
    """Delete all offsets of a stopped connector, so that it starts like a new one.

    For example:

        barnabas connect reset-offsets orders --dry-run

    Parameters
    ----------
    connector
        The name of the connector, which must be stopped.
    """
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run

    def work(worker: ConnectClient) -> Answer:
        found, problems = request_each([connector], worker.offsets)
        if problems:
            return change_answer([], problems, dry_run=dry_run)
        forgotten = [{"partition": position["partition"], "offset": None} for position in found[connector]]
        return _changed(worker, connector, forgotten, lambda: worker.reset_offsets(connector), dry_run=dry_run)

    return options.run(work)


def _changed(
    worker: ConnectClient, connector: str, wanted: Sequence[Document], change: Any, *, dry_run: bool
) -> Answer:
    from barnabas.connect.rest.connect_client import RequestRefused

    try:
        state = worker.status(connector)["connector"]["state"]
        if state != "STOPPED":
            problem = Problem(f"the connector is {state}, not STOPPED", connector, advice=_STOP.format(connector))
            return change_answer([], [problem], dry_run=dry_run)
        notes = [] if dry_run else [str(change())]
    except RequestRefused as error:
        return change_answer([], [problem_of_request(error, connector)], dry_run=dry_run)
    changes = []
    for entry in wanted:
        partition, offset = _texts(entry)
        done = "forgotten" if entry["offset"] is None else f"set to {offset}"
        changes.append(Change("offset", f"of {partition}", done, more={"connector": connector, **entry}))
    return change_answer(changes, dry_run=dry_run, notes=notes)


def _texts(position: Document) -> tuple[str, str]:
    """Format an offset: of a sink as topic-partition and number, of a source as JSON."""
    partition, offset = position["partition"], position["offset"]
    if isinstance(partition, dict) and partition.keys() == {"kafka_topic", "kafka_partition"}:
        number = "none" if offset is None else str(offset.get("kafka_offset"))
        return f"{partition['kafka_topic']}-{partition['kafka_partition']}", number
    return json.dumps(partition), "none" if offset is None else json.dumps(offset)


def _order(position: Document) -> tuple[str, int, str]:
    partition = position["partition"] or {}
    number = partition.get("kafka_partition")
    return str(partition.get("kafka_topic", "")), number if isinstance(number, int) else 0, json.dumps(partition)
