"""``barnabas connect topics|reset-topics``: show and clear the topics that connectors have used (KIP-558)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.connect.options import WorkerChangeOptions, WorkerOptions
from barnabas.cli.connect.tables import request_each
from barnabas.cli.output.answer import Answer, Change, change_answer
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.connect.rest.connect_client import ConnectClient

__all__ = ["reset_topics", "topics"]


def topics(connector: list[str] | None = None, *, options: WorkerOptions | None = None) -> int:
    """Show the topics that connectors have read or written.

    For example:

        barnabas connect topics orders

    Parameters
    ----------
    connector
        The name of a connector. May be repeated. Default: all connectors.
    """

    def work(worker: ConnectClient) -> Answer:
        found, problems = request_each(connector or sorted(worker.connectors()), worker.topics)
        sheet = Sheet(columns=("connector", "topic"))
        for name, used in found.items():
            for topic in sorted(used):
                sheet.add(name, topic)
        document = {"connectors": [{"connector": name, "topics": sorted(used)} for name, used in found.items()]}
        notes = [] if sheet.rows or problems else ["no connector has used a topic"]
        return Answer(document, [sheet] if sheet.rows else [], notes, problems)

    return (options or WorkerOptions()).run(work)


def reset_topics(connector: list[str], *, options: WorkerChangeOptions | None = None) -> int:
    """Clear the list of topics that connectors have used. The topics themselves do not change.

    For example:

        barnabas connect reset-topics orders

    Parameters
    ----------
    connector
        The name of a connector. May be repeated.
    """
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run

    def work(worker: ConnectClient) -> Answer:
        request: Any = worker.topics if dry_run else worker.reset_topics
        found, problems = request_each(connector, request)
        changes = [Change("topics", f"of connector {name}", "forgotten") for name in found]
        return change_answer(changes, problems, dry_run=dry_run)

    return options.run(work)
