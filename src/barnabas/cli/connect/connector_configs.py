"""``barnabas connect create|validate|update|patch|delete``: manage the configurations of connectors."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal

from barnabas.cli.arguments.cluster_options import Flag, UsageError
from barnabas.cli.arguments.config_options import parse_delete_config, parse_settings
from barnabas.cli.connect.arguments import read_config
from barnabas.cli.connect.options import WorkerChangeOptions, WorkerOptions, problem_of_request
from barnabas.cli.connect.tables import request_each
from barnabas.cli.connect.wait import wait_for
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.connect.rest.connect_client import ConnectClient, Document

__all__ = ["checked_settings", "create", "delete", "patch", "update", "validate"]

_SETTINGS = "'barnabas connect plugin-config {}' lists the settings"
_CLASSES = "'barnabas connect plugins' lists the classes"
_CONFLICT, _NOT_FOUND, _BAD_REQUEST, _SERVER_ERROR = 409, 404, 400, 500
_FREE = (
    *("producer.override.", "consumer.override.", "admin.override.", "key.converter.", "value.converter."),
    *("header.converter.", "transforms.", "predicates.", "topic.creation.", "source.", "barnabas."),
    *("inputs.", "output.", "pipeline."),
)
"""Prefixes of settings that a validation result may omit."""


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
    """Create a connector. The command first validates its settings, and reports every invalid one.

    For example:

        barnabas connect create ticks --config connector.class=Generator --config topic=ticks
        barnabas connect create --file orders.json --wait
        barnabas connect create orders --file orders.properties --config tasks.max=4 --dry-run

    Parameters
    ----------
    connector
        The name of the connector, unless the file contains it.
    file
        A file of its settings: JSON as in the REST API, or Kafka properties; - is the standard input.
    config
        A setting as key=value, which overrides the file. May be repeated.
    initial_state
        With paused or stopped, the connector does nothing until it is resumed.
    if_not_exists
        Succeed if a connector of this name exists, whatever its settings.
    wait
        Return when the connector and all its tasks are in the initial state, or one has failed.
    """
    name, settings = read_config(connector, file, config)
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run

    def work(worker: ConnectClient) -> Answer:
        from barnabas.connect.rest.connect_client import RequestRefused

        if name in worker.connectors():
            if if_not_exists:
                return change_answer([], dry_run=dry_run, notes=[f"{name} exists already"])
            advice = "choose another name, change it with 'barnabas connect update', or use --if-not-exists"
            return Answer({}, problems=[Problem("the connector exists already", name, str(_CONFLICT), advice)])
        problems, notes = checked_settings(worker, name, settings)
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
    """Validate settings without creating a connector. Exit status 0: all are valid. Every invalid setting is reported.

    For example:

        barnabas connect validate --file orders.json
        barnabas connect validate orders --config connector.class=TopicToFiles --config topics=orders --all

    Parameters
    ----------
    connector
        The name that the connector would have, unless the file contains it.
    file
        A file of its settings: JSON as in the REST API, or Kafka properties; - is the standard input.
    config
        A setting as key=value, which overrides the file. May be repeated.
    all
        Show every setting with the value that it would have.
    """
    name, settings = read_config(connector, file, config)

    def work(worker: ConnectClient) -> Answer:
        _require_class(settings)
        found, refused = _validated(worker, name, settings)
        if refused:
            return Answer({"connector": name}, problems=refused)
        sheet = Sheet(columns=("setting", "value"))
        for setting in found["configs"]:
            value = setting["value"]
            if all or value["name"] in settings:
                sheet.add(value["name"], "" if value["value"] is None else str(value["value"]))
        problems = _errors(found, settings)
        notes = [*_unknown(found, settings), *([] if problems else [f"the settings of {name} are valid"])]
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
    """Replace all settings of a connector. 'patch' changes only some.

    For example:

        barnabas connect update orders --file orders.json
        barnabas connect update orders --file orders.json --config tasks.max=4 --dry-run

    Parameters
    ----------
    connector
        The name of the connector, unless the file contains it.
    file
        A file of all its settings: JSON as in the REST API, or Kafka properties; - is the standard input.
    config
        A setting as key=value, which overrides the file. May be repeated.
    wait
        Return when the connector and all its tasks are running, or one has failed.
    """
    name, settings = read_config(connector, file, config)
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run

    def work(worker: ConnectClient) -> Answer:
        before, problems = request_each([name], worker.config)
        notes: list[str] = []
        if not problems:
            problems, notes = checked_settings(worker, name, settings)
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
    """Change some settings of a connector and keep the others. Needs workers of Kafka 3.8 or later.

    For example:

        barnabas connect patch orders --config tasks.max=4
        barnabas connect patch orders --delete-config errors.tolerance,errors.log.enable --dry-run

    Parameters
    ----------
    connector
        The name of the connector.
    config
        A setting as key=value. May be repeated.
    delete_config
        Names of settings to remove, separated by commas. May be repeated.
    wait
        Return when the connector and all its tasks are running, or one has failed.
    """
    given: dict[str, str | None] = {**parse_settings(config)}
    for key in parse_delete_config(delete_config):
        if key in given:
            raise UsageError(f"{key}: use either a value or --delete-config, not both")
        given[key] = None
    if not given:
        raise UsageError("nothing to change: use --config key=value or --delete-config key")
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run

    def work(worker: ConnectClient) -> Answer:
        before, problems = request_each([connector], worker.config)
        if problems:
            return change_answer([], problems, dry_run=dry_run)
        merged = {key: value for key, value in (before[connector] | given).items() if value is not None}
        changes = _changed(connector, before[connector], merged)
        problems, notes = checked_settings(worker, connector, merged)
        if problems or dry_run:
            return change_answer([] if problems else changes, problems, dry_run=dry_run, notes=notes)
        worker.patch_config(connector, given)
        problems = wait_for(worker, connector, "RUNNING") if wait else []
        return change_answer(changes, problems, dry_run=False, notes=notes)

    return options.run(work)


def delete(
    connector: list[str] | None = None, *, if_exists: Flag = False, options: WorkerChangeOptions | None = None
) -> int:
    """Delete connectors. Offsets of sinks stay in their consumer groups; those of sources stay in the offset topic.

    For example:

        barnabas connect delete orders --dry-run
        barnabas connect delete orders payments --if-exists

    Parameters
    ----------
    connector
        The name of a connector. May be repeated.
    if_exists
        Skip connectors that do not exist.
    """
    if not connector:
        raise UsageError("no connector given: name one or more")
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run

    def work(worker: ConnectClient) -> Answer:
        request: Any = worker.config if dry_run else worker.delete
        found, problems = request_each(connector, request)
        there_not = [problem for problem in problems if if_exists and problem.code == str(_NOT_FOUND)]
        notes = [f"{problem.item} does not exist" for problem in there_not]
        left = [problem for problem in problems if problem not in there_not]
        return change_answer(
            [Change("connector", name, "deleted") for name in found], left, dry_run=dry_run, notes=notes
        )

    return options.run(work)


def _require_class(settings: Mapping[str, str]) -> None:
    if not settings.get("connector.class"):
        raise UsageError("connector.class is missing: 'barnabas connect plugins' lists the classes")


def checked_settings(worker: ConnectClient, name: str, settings: Mapping[str, str]) -> tuple[list[Problem], list[str]]:
    """Return errors in the settings, and warnings about them."""
    _require_class(settings)
    found, problems = _validated(worker, name, settings)
    return (problems, []) if problems else (_errors(found, settings), _unknown(found, settings))


def _validated(worker: ConnectClient, name: str, settings: Mapping[str, str]) -> tuple[Document, list[Problem]]:
    """Validate settings. The response to an unknown class is an error (500), but not a failure of the worker."""
    from barnabas.connect.rest.connect_client import RequestRefused

    try:
        return worker.validate({**settings, "name": name}), []
    except RequestRefused as error:
        if error.status not in (_BAD_REQUEST, _NOT_FOUND, _SERVER_ERROR):
            raise
        advice = "" if "connector" not in error.message.lower() else _CLASSES
        return {}, [problem_of_request(error, "connector.class", advice)]


def _unknown(found: Document, settings: Mapping[str, str]) -> list[str]:
    """Return notes about settings that the connector does not define. Kafka accepts them, but most are misspelled."""
    known = {setting["value"]["name"] for setting in found["configs"]}
    notes = []
    for name in sorted(settings.keys() - known - {"name"}):
        if not name.startswith(_FREE):
            near = get_close_matches(name, known, 1, 0.8)
            notes.append(f"{name} is not a setting of the connector" + (f"; did you mean {near[0]}?" if near else ""))
    return notes


def _errors(found: Document, settings: Mapping[str, str]) -> list[Problem]:
    """Return a problem for each invalid setting."""
    advice = _SETTINGS.format(settings.get("connector.class", ""))
    problems = []
    for setting in found["configs"]:
        value = setting["value"]
        errors = list(dict.fromkeys(value["errors"]))
        # The worker also reports a value that is not a number as null: omit this second error.
        relevant = [
            text for text in errors if not text.startswith(f"Invalid value null for configuration {value['name']}")
        ]
        if errors:
            problems.append(Problem("; ".join(relevant or errors), value["name"]))
    if problems:
        problems[-1] = Problem(problems[-1].text, problems[-1].item, advice=advice)
    return problems


def _created(name: str, settings: Mapping[str, str]) -> Change:
    return Change("connector", name, "created", settings["connector.class"], {"config": dict(settings)})


def _changed(name: str, before: Document, after: Mapping[str, object]) -> list[Change]:
    """Return a change for each setting whose value differs."""
    changes = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        done = "set" if old is None else "removed" if new is None else "changed"
        # The old value may be a secret in plain text, so only names are shown.
        changes.append(Change("setting", f"{key} of {name}", done, more={"connector": name}))
    return changes or [Change("connector", name, "unchanged")]
