"""``barnabas connect plugins|plugin-config|logs|loggers|set-logger|health``: inspect a worker, and set log levels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from barnabas.cli.arguments.cluster_options import Flag
from barnabas.cli.arguments.parameter import Number, Parameter
from barnabas.cli.connect.options import WorkerChangeOptions, WorkerOptions, problem_of_request
from barnabas.cli.connect.tables import request_each
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.moment import moment
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.connect.rest.connect_client import ConnectClient, Document

__all__ = ["health", "loggers", "logs", "plugin_config", "plugins", "set_logger"]

_NOT_FOUND = 404


def plugins(*, all: Flag = False, options: WorkerOptions | None = None) -> int:
    """List the connector classes of the worker.

    For example:

        barnabas connect plugins
        barnabas connect plugins --all

    Parameters
    ----------
    all
        Also list converters, transforms and predicates.
    """

    def work(worker: ConnectClient) -> Answer:
        found = sorted(worker.plugins(connectors_only=not all), key=lambda entry: (entry["type"], entry["class"]))
        sheet = Sheet(columns=("class", "type", "version"))
        for entry in found:
            sheet.add(entry["class"], entry["type"], entry.get("version") or "")
        return Answer({"plugins": found}, [sheet] if found else [], [] if found else ["the worker has no plugins"])

    return (options or WorkerOptions()).run(work)


def plugin_config(plugin: str, *, version: str | None = None, options: WorkerOptions | None = None) -> int:
    """Show the settings of a plugin, with their documentation.

    For example:

        barnabas connect plugin-config TopicToFiles
        barnabas connect plugin-config JsonConverter --output json

    Parameters
    ----------
    plugin
        The class of the plugin, as 'plugins --all' shows it. The last part of the name is enough.
    version
        The version, if the worker has several.
    """

    def work(worker: ConnectClient) -> Answer:
        found, problems = request_each([plugin], lambda name: worker.plugin_config(name, version))
        advice = "'barnabas connect plugins --all' lists the plugins"
        problems = [replace(problem, advice=advice) for problem in problems]
        sheet = Sheet(columns=("setting", "type", "default", "documentation"))
        for setting in found.get(plugin, ()):
            default = "(required)" if setting["required"] else setting["default_value"] or ""
            sheet.add(setting["name"], setting["type"], default, setting["documentation"])
        document = {"plugin": plugin, "settings": found.get(plugin, [])}
        return Answer(document, [sheet] if sheet.rows else [], [], problems)

    return (options or WorkerOptions()).run(work)


def logs(
    connector: str | None = None,
    *,
    lines: Annotated[int, Parameter(validator=Number(gte=1, lte=1000))] = 100,
    level: str | None = None,
    options: WorkerOptions | None = None,
) -> int:
    """Show the latest log lines of a worker. Each worker has its own log; 'status' shows which worker runs which task.

    For example:

        barnabas connect logs --level WARN
        barnabas connect logs orders-to-files --lines 20 --worker http://connect-2:8083

    Parameters
    ----------
    connector
        Only lines that name this connector or one of its tasks.
    lines
        Maximum number of lines, up to 1000.
    level
        Only lines of this level or above: DEBUG, INFO, WARN or ERROR.
    """

    def work(worker: ConnectClient) -> Answer:
        from barnabas.connect.rest.connect_client import RequestRefused

        try:
            found = worker.logs(lines=lines, level=level, connector=connector)
        except RequestRefused as error:
            if error.status != _NOT_FOUND:
                raise
            advice = (
                "Kafka's workers don't serve their log; a barnabas worker serves it on admin.listeners, if that is set"
            )
            return Answer({}, problems=[Problem(f"{worker.url} does not serve its log", advice=advice)])
        notes = [] if found else [f"the log of {worker.url} contains no matching lines"]
        return Answer({"worker": worker.url, "lines": found}, _log_sheets(found), notes)

    return (options or WorkerOptions()).run(work)


def _log_sheets(lines: list[Document]) -> list[Sheet]:
    """Return a row for each line of text. The lines of a stack trace follow its first line."""
    sheet = Sheet(columns=("time", "level", "message"))
    for line in lines:
        when = moment(line["time"])
        first, *rest = line["message"].splitlines() or [""]
        sheet.add(when, line["level"], f"{first} ({line['logger']})")
        for text in rest:
            sheet.add("", "", text)
    return [sheet] if lines else []


def loggers(logger: str | None = None, *, options: WorkerOptions | None = None) -> int:
    """Show the log levels of a worker's loggers.

    For example:

        barnabas connect loggers
        barnabas connect loggers barnabas.connect --output json

    Parameters
    ----------
    logger
        Only the logger with this name.
    """

    def work(worker: ConnectClient) -> Answer:
        found: Document
        refused: list[Problem]
        if logger is None:
            found, refused = worker.loggers(), []
        else:
            found, refused = request_each([logger], worker.logger)
        problems = [replace(problem, advice="'barnabas connect loggers' lists the loggers") for problem in refused]
        sheet = Sheet(columns=("logger", "level"))
        for name, described in sorted(found.items()):
            sheet.add(name, described["level"])
        return Answer({"loggers": found}, [sheet] if sheet.rows else [], [], problems)

    return (options or WorkerOptions()).run(work)


def set_logger(
    logger: str,
    *,
    level: str,
    scope: Literal["worker", "cluster"] = "worker",
    options: WorkerChangeOptions | None = None,
) -> int:
    """Set the level of all loggers whose names begin with LOGGER, until the worker ends.

    For example:

        barnabas connect set-logger barnabas.connect --level DEBUG
        barnabas connect set-logger root --level INFO --scope cluster

    Parameters
    ----------
    logger
        A name, or the beginning of names. barnabas.connect includes barnabas.connect_spark, which runs the tasks. root
        means all loggers.
    level
        TRACE, DEBUG, INFO, WARN, ERROR or OFF.
    scope
        Only the contacted worker, or all workers of the group.
    """
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run
    wanted = level.upper()

    def work(worker: ConnectClient) -> Answer:
        from barnabas.connect.rest.connect_client import RequestRefused

        if dry_run:
            return change_answer([Change("logger", logger, f"set to {wanted}")], dry_run=True)
        try:
            changed = worker.set_logger(logger, wanted, scope)
        except RequestRefused as error:
            advice = "valid levels are TRACE, DEBUG, INFO, WARN, ERROR and OFF" if error.status == _NOT_FOUND else ""
            return change_answer([], [problem_of_request(error, logger, advice)], dry_run=False)
        names = changed or [logger]
        return change_answer([Change("logger", name, f"set to {wanted}") for name in names], dry_run=False)

    return options.run(work)


def health(*, options: WorkerOptions | None = None) -> int:
    """Check the health of a worker. Exit status: 0 healthy, 1 otherwise.

    For example:

        barnabas connect health --worker http://connect-1:8083
    """

    def work(worker: ConnectClient) -> Answer:
        from barnabas.connect.rest.connect_client import RequestRefused

        try:
            found = worker.health()
        except RequestRefused as error:
            if error.status != _NOT_FOUND:
                raise
            worker.server_info()  # Workers before 3.9: a worker that answers this has started.
            found = {"status": "healthy", "message": "The worker responds; its version does not report its health."}
        sheet = Sheet(columns=("worker", "status", "message"))
        sheet.add(worker.url, found["status"], found.get("message") or "")
        problems = []
        if found["status"] != "healthy":
            problems.append(Problem(f"the worker is {found['status']}", worker.url, advice="see its log"))
        return Answer({"worker": worker.url, **found}, [sheet], [], problems)

    return (options or WorkerOptions()).run(work)
