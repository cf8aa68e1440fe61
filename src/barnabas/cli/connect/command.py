"""``barnabas connect list|status|create|...``: manage the connectors of a group of barnabas or Kafka workers.

Other verbs are in other modules: configurations in ``connector_configs``, states in ``states``, offsets in ``offsets``,
dead letters in ``dead_letters``, plugins, loggers and health in ``worker_info``, and what Spark needs in ``prepare``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.connect.connector_configs import create, delete, patch, update, validate
from barnabas.cli.connect.dead_letters import dead_letters
from barnabas.cli.connect.offsets import alter_offsets, offsets, reset_offsets
from barnabas.cli.connect.options import WorkerOptions
from barnabas.cli.connect.prepare import prepare
from barnabas.cli.connect.states import pause, restart, resume, stop
from barnabas.cli.connect.tables import (
    attention_text,
    failure_notes,
    request_each,
    status_document,
    status_sheet,
    tasks_text,
)
from barnabas.cli.connect.topics import reset_topics, topics
from barnabas.cli.connect.worker_info import health, loggers, logs, plugin_config, plugins, set_logger
from barnabas.cli.output.answer import Answer
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.connect.rest.connect_client import ConnectClient, Document

__all__ = ["app", "main"]

app = cluster_app("connect", "List, create, change and watch the connectors of Connect workers.")
main = main_of(app)


@app.command(name="list")
def list_(*, state: list[str] | None = None, options: WorkerOptions | None = None) -> int:
    """List the connectors, with the states of their tasks.

    For example:

        barnabas connect list
        barnabas connect list --state FAILED --worker http://connect-1:8083 --output json

    Parameters
    ----------
    state
        Only connectors in this state, or with a task in it, for example RUNNING or FAILED. May be repeated.
    """
    wanted = {word.upper() for word in state or ()}

    def work(worker: ConnectClient) -> Answer:
        rows: list[tuple[str, ...]] = []
        documents = []
        for name, found in sorted(worker.connectors().items()):
            document = _listed(name, found)
            states = {document["state"], *(task["state"] for task in document["tasks"])}
            if not wanted or wanted & states:
                tasks = tasks_text(document["tasks"])
                row = (name, document["type"], document["state"], tasks, document["class"])
                rows.append((*row, attention_text(document)))
                documents.append(document)
        columns = ("connector", "type", "state", "tasks", "class")
        sheet = Sheet(columns=(*columns, "attention") if any(cells[-1] for cells in rows) else columns)
        for cells in rows:
            sheet.add(*cells[: len(sheet.columns)])
        notes = [] if documents else ["no such connectors exist"]
        return Answer({"connectors": documents}, [sheet] if documents else [], notes)

    return (options or WorkerOptions()).run(work)


@app.command
def status(connector: list[str] | None = None, *, options: WorkerOptions | None = None) -> int:
    """Show the states of connectors and their tasks, their workers, and what needs attention.

    A failure is shown until a batch succeeds, also while the task runs again. A sink says which topics it waits for.
    Bad records that were skipped are counted.

    For example:

        barnabas connect status orders-to-files
        barnabas connect status --output json

    Parameters
    ----------
    connector
        The name of a connector. May be repeated. Default: all connectors.
    """

    def work(worker: ConnectClient) -> Answer:
        names = connector or sorted(worker.connectors())
        found, problems = request_each(names, worker.status)
        answer = Answer({"connectors": [status_document(status) for status in found.values()]}, problems=problems)
        if found:
            answer.sheets = [status_sheet(list(found.values()))]
            answer.notes = failure_notes(found.values())
        elif not problems:
            answer.notes = ["no connectors exist"]
        return answer

    return (options or WorkerOptions()).run(work)


@app.command
def config(connector: str, *, options: WorkerOptions | None = None) -> int:
    """Show the settings of a connector, as they were configured.

    For example:

        barnabas connect config orders-to-files
        barnabas connect config orders-to-files --output json

    Parameters
    ----------
    connector
        The name of the connector.
    """

    def work(worker: ConnectClient) -> Answer:
        found, problems = request_each([connector], worker.config)
        settings = found.get(connector, {})
        sheet = Sheet(columns=("setting", "value"))
        for key, value in sorted(settings.items()):
            sheet.add(key, "null" if value is None else str(value))
        return Answer({"name": connector, "config": settings}, [sheet] if settings else [], problems=problems)

    return (options or WorkerOptions()).run(work)


@app.command
def tasks(connector: str, *, options: WorkerOptions | None = None) -> int:
    """Show the settings of each task of a connector, as the connector generated them.

    For example:

        barnabas connect tasks orders-to-files

    Parameters
    ----------
    connector
        The name of the connector.
    """

    def work(worker: ConnectClient) -> Answer:
        found, problems = request_each([connector], worker.tasks)
        sheet = Sheet(columns=("task", "setting", "value"))
        documents = []
        for task in found.get(connector, ()):
            number = task["id"]["task"]
            documents.append({"task": number, "config": task["config"]})
            for key, value in sorted(task["config"].items()):
                sheet.add(str(number), key, "null" if value is None else str(value))
        notes = [] if documents or problems else [f"{connector} has no tasks"]
        return Answer({"name": connector, "tasks": documents}, [sheet] if sheet.rows else [], notes, problems)

    return (options or WorkerOptions()).run(work)


def _listed(name: str, found: Document) -> Document:
    """Return the row of a connector. While it is created or deleted, its status or configuration may be missing."""
    document = status_document(found.get("status") or {"name": name})
    info = found.get("info") or {}
    return {**document, "class": (info.get("config") or {}).get("connector.class") or ""}


app.command(create)
app.command(validate)
app.command(update)
app.command(patch)
app.command(delete)
app.command(pause)
app.command(resume)
app.command(stop)
app.command(restart)
app.command(topics)
app.command(reset_topics, name="reset-topics")
app.command(offsets)
app.command(alter_offsets, name="alter-offsets")
app.command(reset_offsets, name="reset-offsets")
app.command(dead_letters, name="dead-letters")
app.command(plugins)
app.command(plugin_config, name="plugin-config")
app.command(logs)
app.command(loggers)
app.command(set_logger, name="set-logger")
app.command(health)
app.command(prepare)
