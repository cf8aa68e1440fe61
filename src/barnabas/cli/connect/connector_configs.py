"""``barnabas connect create|validate|update|patch|delete``: configurations of connectors."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from barnabas.cli.arguments.cluster_options import Flag, UsageError
from barnabas.cli.arguments.config_options import parse_delete_config, parse_settings
from barnabas.cli.connect.arguments import read_config
from barnabas.cli.connect.options import WorkerChangeOptions, WorkerOptions, problem_of_request
from barnabas.cli.connect.tables import each_asked
from barnabas.cli.connect.wait import wait_for
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.connect.rest.connect_client import ConnectClient, Document

__all__ = ["create", "delete", "patch", "update", "validate"]

_SETTINGS = "'barnabas connect plugin-config {}' shows the settings that there are"
_CLASSES = "'barnabas connect plugins' shows the classes that there are"
_CONFLICT, _NOT_FOUND, _BAD_REQUEST, _SERVER_ERROR = 409, 404, 400, 500
_FREE = (
    *("producer.override.", "consumer.override.", "admin.override.", "key.converter.", "value.converter."),
    *("header.converter.", "transforms.", "predicates.", "topic.creation.", "source.", "barnabas."),
)
"""Families whose settings a validation may not list."""


def create(
    connector: str | None = None,
    *,
    file: str | None = None,
    config: list[str] | None = None,
    initial_state: Literal["running", "paused", "stopped"] = "running",
    if_not_exists: Flag = False,
    wait: Flag = False,
    options: WorkerChangeOptions | None = None,
) -> int:
    """Create a connector. Its settings are validated first, and every one that is wrong is named.

    For example:

        barnabas connect create ticks --config connector.class=Generator --config topic=ticks
        barnabas connect create --file orders.json --wait
        barnabas connect create orders --file orders.properties --config tasks.max=4 --dry-run

    Parameters
    ----------
    connector
        Its name, unless the file has it.
    file
        Its settings: JSON as the REST API takes it, or Kafka's properties; - is the standard input.
    config
        A setting, as key=value. May be repeated; it wins over the file.
    initial_state
        With paused or stopped it does nothing until it is resumed.
    if_not_exists
        Take a connector that exists as done, whatever it looks like.
    wait
        Return when the connector and all its tasks are in that state, or one has failed.
    """
    name, settings = read_config(connector, file, config)
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run

    def work(worker: ConnectClient) -> Answer:
        from barnabas.connect.rest.connect_client import RequestRefused

        if name in worker.connectors():
            if if_not_exists:
                return change_answer([], dry_run=dry_run, notes=[f"{name} exists already"])
            advice = "choose another name, or change it: 'barnabas connect update'. --if-not-exists takes it as done"
            return Answer({}, problems=[Problem("the connector exists already", name, str(_CONFLICT), advice)])
        problems, notes = _checked(worker, name, settings)
        if problems or dry_run:
            changes = [] if problems else [_created(name, settings)]
            return change_answer(changes, problems, dry_run=dry_run, notes=notes)
        try:
            worker.create(name, settings, None if initial_state == "running" else initial_state.upper())
        except RequestRefused as error:
            return change_answer([], [problem_of_request(error, name)], dry_run=False)
        problems = wait_for(worker, name, initial_state.upper()) if wait else []
        return change_answer([_created(name, settings)], problems, dry_run=False, notes=notes)

    return options.run(work)


def validate(
    connector: str | None = None,
    *,
    file: str | None = None,
    config: list[str] | None = None,
    all: Flag = False,
    options: WorkerOptions | None = None,
) -> int:
    """Check settings without creating anything: 0 when all are good, else every one that is wrong is named.

    For example:

        barnabas connect validate --file orders.json
        barnabas connect validate orders --config connector.class=TopicToFiles --config topics=orders --all

    Parameters
    ----------
    connector
        The name it would get, unless the file has it.
    file
        Its settings: JSON as the REST API takes it, or Kafka's properties; - is the standard input.
    config
        A setting, as key=value. May be repeated; it wins over the file.
    all
        Show every setting that there is with the value that it would have.
    """
    name, settings = read_config(connector, file, config)

    def work(worker: ConnectClient) -> Answer:
        _require_class(settings)
        found, refused = _validated(worker, name, settings)
        if refused:
            return Answer({"connector": name}, problems=refused)
        sheet = Sheet(columns=("setting", "value"))
        for each in found["configs"]:
            value = each["value"]
            if all or value["name"] in settings:
                sheet.add(value["name"], "" if value["value"] is None else str(value["value"]))
        problems = _errors(found, settings)
        notes = [*_unknown(found, settings), *([] if problems else [f"the settings of {name} are good"])]
        return Answer({"connector": name, "validation": found}, [sheet] if sheet.rows else [], notes, problems)

    return (options or WorkerOptions()).run(work)


def update(
    connector: str | None = None,
    *,
    file: str | None = None,
    config: list[str] | None = None,
    wait: Flag = False,
    options: WorkerChangeOptions | None = None,
) -> int:
    """Replace all settings of a connector. 'patch' changes some of them.

    For example:

        barnabas connect update orders --file orders.json
        barnabas connect update orders --file orders.json --config tasks.max=4 --dry-run

    Parameters
    ----------
    connector
        Its name, unless the file has it.
    file
        All of its settings: JSON as the REST API takes it, or Kafka's properties; - is the standard input.
    config
        A setting, as key=value. May be repeated; it wins over the file.
    wait
        Return when the connector and all its tasks run, or one has failed.
    """
    name, settings = read_config(connector, file, config)
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run

    def work(worker: ConnectClient) -> Answer:
        before, problems = each_asked([name], worker.config)
        notes: list[str] = []
        if not problems:
            problems, notes = _checked(worker, name, settings)
        if problems:
            return change_answer([], problems, dry_run=dry_run)
        changes = _changed(name, before[name], {**settings, "name": name})
        if not dry_run:
            worker.put_config(name, settings)
            problems = wait_for(worker, name, "RUNNING") if wait else []
        return change_answer(changes, problems, dry_run=dry_run, notes=notes)

    return options.run(work)


def patch(
    connector: str,
    *,
    config: list[str] | None = None,
    delete_config: list[str] | None = None,
    wait: Flag = False,
    options: WorkerChangeOptions | None = None,
) -> int:
    """Change some settings of a connector and leave the others. Needs workers of 3.8 or later.

    For example:

        barnabas connect patch orders --config tasks.max=4
        barnabas connect patch orders --delete-config errors.tolerance,errors.log.enable --dry-run

    Parameters
    ----------
    connector
        Its name.
    config
        A setting, as key=value. May be repeated.
    delete_config
        Settings to take away, by their names, with commas between. May be repeated.
    wait
        Return when the connector and all its tasks run, or one has failed.
    """
    given: dict[str, str | None] = {**parse_settings(config)}
    for key in parse_delete_config(delete_config):
        if key in given:
            raise UsageError(f"{key}: is it to be set or taken away?")
        given[key] = None
    if not given:
        raise UsageError("nothing to change: give --config key=value or --delete-config key")
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run

    def work(worker: ConnectClient) -> Answer:
        before, problems = each_asked([connector], worker.config)
        if problems:
            return change_answer([], problems, dry_run=dry_run)
        merged = {key: value for key, value in (before[connector] | given).items() if value is not None}
        changes = _changed(connector, before[connector], merged)
        problems, notes = _checked(worker, connector, merged)
        if problems or dry_run:
            return change_answer([] if problems else changes, problems, dry_run=dry_run, notes=notes)
        worker.patch_config(connector, given)
        problems = wait_for(worker, connector, "RUNNING") if wait else []
        return change_answer(changes, problems, dry_run=False, notes=notes)

    return options.run(work)


def delete(
    connector: list[str] | None = None, *, if_exists: Flag = False, options: WorkerChangeOptions | None = None
) -> int:
    """Delete connectors. Positions of sinks stay in their consumer groups; those of sources in the offset topic.

    For example:

        barnabas connect delete orders --dry-run
        barnabas connect delete orders payments --if-exists

    Parameters
    ----------
    connector
        Names; may be repeated.
    if_exists
        Pass over connectors that do not exist.
    """
    if not connector:
        raise UsageError("which connectors? Give their names")
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run

    def work(worker: ConnectClient) -> Answer:
        ask: Any = worker.config if dry_run else worker.delete
        found, problems = each_asked(connector, ask)
        there_not = [each for each in problems if if_exists and each.code == str(_NOT_FOUND)]
        notes = [f"{each.item} does not exist" for each in there_not]
        left = [each for each in problems if each not in there_not]
        return change_answer(
            [Change("connector", name, "deleted") for name in found], left, dry_run=dry_run, notes=notes
        )

    return options.run(work)


def _require_class(settings: Mapping[str, str]) -> None:
    if not settings.get("connector.class"):
        raise UsageError("connector.class is missing: 'barnabas connect plugins' shows the classes that there are")


def _checked(worker: ConnectClient, name: str, settings: Mapping[str, str]) -> tuple[list[Problem], list[str]]:
    """What is wrong with the settings, and what is odd about them."""
    _require_class(settings)
    found, problems = _validated(worker, name, settings)
    return (problems, []) if problems else (_errors(found, settings), _unknown(found, settings))


def _validated(worker: ConnectClient, name: str, settings: Mapping[str, str]) -> tuple[Document, list[Problem]]:
    """A class that the worker does not have is an error of its own (500), and no mistake of the worker's."""
    from barnabas.connect.rest.connect_client import RequestRefused

    try:
        return worker.validate({**settings, "name": name}), []
    except RequestRefused as error:
        if error.status not in (_BAD_REQUEST, _NOT_FOUND, _SERVER_ERROR):
            raise
        advice = "" if "connector" not in error.message.lower() else _CLASSES
        return {}, [problem_of_request(error, "connector.class", advice)]


def _unknown(found: Document, settings: Mapping[str, str]) -> list[str]:
    """Kafka takes settings that nobody has heard of; most of them are misspelt."""
    known = {each["value"]["name"] for each in found["configs"]}
    notes = []
    for name in sorted(settings.keys() - known - {"name"}):
        if not name.startswith(_FREE):
            near = get_close_matches(name, known, 1, 0.8)
            notes.append(f"{name}: no setting of this name is known" + (f"; did you mean {near[0]}?" if near else ""))
    return notes


def _errors(found: Document, settings: Mapping[str, str]) -> list[Problem]:
    """A problem for each setting that is wrong."""
    advice = _SETTINGS.format(settings.get("connector.class", ""))
    problems = []
    for each in found["configs"]:
        value = each["value"]
        errors = list(dict.fromkeys(value["errors"]))
        # What is no number is null as well, which says nothing new.
        told = [text for text in errors if not text.startswith(f"Invalid value null for configuration {value['name']}")]
        if errors:
            problems.append(Problem("; ".join(told or errors), value["name"]))
    if problems:
        problems[-1] = Problem(problems[-1].text, problems[-1].item, advice=advice)
    return problems


def _created(name: str, settings: Mapping[str, str]) -> Change:
    return Change("connector", name, "created", settings["connector.class"], {"config": dict(settings)})


def _changed(name: str, before: Document, after: Mapping[str, object]) -> list[Change]:
    """A change for each setting that is not what it was."""
    changes = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        done = "set" if old is None else "removed" if new is None else "changed"
        # What was there may be a secret that somebody wrote in the clear: only names are shown.
        changes.append(Change("setting", f"{key} of {name}", done, more={"connector": name}))
    return changes or [Change("connector", name, "left as it is")]
