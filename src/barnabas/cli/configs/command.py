"""``barnabas configs``: show, explain and change settings of a cluster, document settings, check a server.properties.

A cluster has settings of topics, brokers, loggers, groups and client-metrics subscriptions.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ChangeOptions, ClusterOptions, Flag, UsageError, running_command
from barnabas.cli.arguments.config_options import parse_delete_config, parse_settings, read_settings_file
from barnabas.cli.arguments.config_resources import WHOSE, Entities, noun, resource_problems
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.output.advice import nearest
from barnabas.cli.output.answer import Answer, Change, change_answer
from barnabas.cli.output.exit_status import FAILED
from barnabas.cli.output.table import Sheet
from barnabas.cli.output.table import show as show_sheet
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, AlterConfigOp

__all__ = ["app", "main"]

app = cluster_app(
    "configs", "Show and change the settings of a cluster, look up their meaning, and check a server.properties."
)
main = main_of(app)

_ONLY = "Only this setting, instead of all configured ones. May be repeated."


@app.command(name="list")
def list_(*, options: ClusterOptions | None = None) -> int:
    """List resources that have settings: topics, brokers, groups and client-metrics subscriptions.

    Needs Kafka 4.1 or later.

    For example:

        barnabas configs list
    """

    async def work(admin: AdminClient) -> Answer:
        found = await admin.list_config_resources()
        sheet = Sheet(columns=("type", "name"))
        for resource in found:
            sheet.add(noun(resource), resource.name)
        document = {"resources": [{"type": noun(resource), "name": resource.name} for resource in found]}
        return Answer(document, [sheet] if found else [])

    return (options or ClusterOptions()).run(work, right="DESCRIBE_CONFIGS on Cluster")


@app.command
def describe(
    *,
    config: list[str] | None = None,
    all: Flag = False,
    synonyms: Flag = False,
    documentation: Flag = False,
    entities: Entities | None = None,
    options: ClusterOptions | None = None,
) -> int:
    """Show the configured settings, or all. Secret values are never shown.

    For example:

        barnabas configs describe --topic orders
        barnabas configs describe --topic orders --all --synonyms
        barnabas configs describe --entity-type brokers --entity-name 1 --config log.retention.ms
        barnabas configs describe --entity-type topics --output yaml

    Parameters
    ----------
    config
        Only this setting, whatever its source. May be repeated.
    all
        Also show settings with default values.
    synonyms
        Also show the other sources of each value, in order of precedence.
    documentation
        Also show the node's documentation of each setting.
    """
    selected = entities or Entities()
    if not selected.named() and selected.one_type() is None:
        raise UsageError(WHOSE)

    async def work(admin: AdminClient) -> Answer:
        from barnabas.cli.configs.tables import described_answer

        return await described_answer(
            admin,
            await selected.resources(admin),
            names=config,
            with_defaults=all or bool(config),
            synonyms=synonyms,
            documentation=documentation,
        )

    return (options or ClusterOptions()).run(work)


@app.command
def explain(
    *,
    config: Annotated[list[str] | None, Parameter(help=_ONLY)] = None,
    entities: Entities | None = None,
    options: ClusterOptions | None = None,
) -> int:
    """Explain the source of a setting's value, the values that it overrides, and the value that each node returns.

    The result depends on each node's own file, so nodes can return different values for the same topic.

    For example:

        barnabas configs explain --topic orders --config retention.ms
        barnabas configs explain --broker 1 --config log.cleaner.backoff.ms --output json
    """
    selected = entities or Entities()
    if not selected.named():
        raise UsageError(WHOSE)

    async def work(admin: AdminClient) -> Answer:
        from barnabas.cli.configs.explain import explained_answer

        return await explained_answer(admin, await selected.resources(admin), config or [])

    return (options or ClusterOptions()).run(work)


@app.command
def alter(
    *,
    config: list[str] | None = None,
    add_config: list[str] | None = None,
    add_config_file: str | None = None,
    delete_config: list[str] | None = None,
    append_config: list[str] | None = None,
    subtract_config: list[str] | None = None,
    wait: Flag = False,
    entities: Entities | None = None,
    options: ChangeOptions | None = None,
) -> int:
    """Change some settings and keep the others.

    With --dry-run, the cluster checks the change, including policies, without making it.

    For example:

        barnabas configs alter --topic orders --config retention.ms=86400000 --delete-config segment.ms
        barnabas configs alter --topic orders --add-config 'cleanup.policy=[compact,delete],segment.ms=600000'
        barnabas configs alter --broker-defaults --config log.cleaner.threads=2 --dry-run
        barnabas configs alter --topic orders --append-config cleanup.policy=compact

    Parameters
    ----------
    config
        A setting as key=value; the value may contain commas. May be repeated.
    add_config
        Settings in Kafka's notation: separated by commas, lists in brackets. May be repeated.
    add_config_file
        A properties file of settings to add. Use it for secrets, which do not belong on a command line.
    delete_config
        Settings to remove, so that their defaults apply, separated by commas. May be repeated.
    append_config
        Values to append to a list, as key=value,value. May be repeated.
    subtract_config
        Values to remove from a list, as key=value,value. May be repeated.
    wait
        Return when every live broker has the new settings.
    """
    selected = entities or Entities()
    if not selected.named():
        raise UsageError(WHOSE)
    settings = parse_settings(config, add_config)
    if add_config_file is not None:
        settings |= read_settings_file(add_config_file)
    deleted = parse_delete_config(delete_config)
    appended, subtracted = parse_settings(append_config), parse_settings(subtract_config)
    names = [*settings, *deleted, *appended, *subtracted]
    if not names:
        raise UsageError(
            "no change given: use --config key=value, --delete-config key, or another option that changes settings"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{', '.join(twice)}: only one change per setting is allowed")
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        from barnabas.cli.arguments.config_names import unknown_setting_advice
        from barnabas.clients.admin import AlterConfigOp

        ops: list[AlterConfigOp] = [
            *(AlterConfigOp.set(name, value) for name, value in settings.items()),
            *(AlterConfigOp.delete(name) for name in deleted),
            *(AlterConfigOp.append(name, value) for name, value in appended.items()),
            *(AlterConfigOp.subtract(name, value) for name, value in subtracted.items()),
        ]
        wanted = await selected.resources(admin)
        results = await admin.incremental_alter_configs(dict.fromkeys(wanted, ops), validate_only=dry_run, wait=wait)
        problems = await resource_problems(
            admin,
            results.errors,
            "ALTER_CONFIGS",
            advice=lambda resource: {ErrorCode.INVALID_CONFIG: unknown_setting_advice(noun(resource), names)},
        )
        changes = [
            Change(noun(resource), resource.name or "(default)", "altered", ", ".join(names), {"configs": names})
            for resource in results.values
        ]
        return change_answer(changes, problems, dry_run=dry_run)

    return options.run(work)


@app.command
def show(name: str, *more: str) -> int:
    """Show the meaning and valid values of settings, and whether this release supports them.

    The command does not contact a cluster.

    For example:

        barnabas configs show retention.ms num.partitions

    Parameters
    ----------
    name
        The name of a setting of a node, a topic, a group or a client-metrics subscription.
    more
        More names of settings.
    """
    from barnabas.server.settings.reference_page import describe_setting

    status = 0
    for part in (name, *more):
        described = describe_setting(part)
        if described is None:
            sys.stderr.write(_unknown(part))
            status = FAILED
            continue
        sheet = Sheet(part)
        for label, text in described:
            sheet.add(label, text)
        show_sheet(sheet)
    return status


@app.command
def check(path: str, *, override: list[str] | None = None) -> int:
    """Check a server.properties as a node would, without starting one.

    For example:

        barnabas configs check server.properties --override num.partitions=3

    Parameters
    ----------
    path
        The file.
    override
        A setting that overrides the file, as key=value. May be repeated.
    """
    from barnabas.common.settings.problem import InvalidSettings
    from barnabas.server.settings.node_config import load_node_config

    try:
        config = load_node_config(path, override or ())
    except InvalidSettings as error:
        sys.stderr.write(f"{running_command.get()}: {error}\n")
        return FAILED
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from error
    for warning in config.warnings:
        sys.stdout.write(f"{warning}\n")
    sys.stdout.write(f"{path}: {len(config.static)} settings are valid\n")
    return 0


def _unknown(name: str) -> str:
    from barnabas.server.settings.reference_page import all_names

    close = nearest(name, all_names())
    hint = f"did you mean {close}?" if close else "docs/reference/configs.md lists all settings."
    return f"{running_command.get()}: {name}: no such setting exists: {hint}\n"
