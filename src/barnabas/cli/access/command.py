"""``barnabas access explain|who|of``: who may do what, decided as a node decides, with the rule that says so.

``mine`` asks the cluster what the caller itself may do.

Exit status, for scripts: 0 answered (for ``explain``: allowed), 3 ``explain`` says denied, 1 there is no answer (no
cluster, no rights, no such file), 2 the command line makes no sense.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from cyclopts import Parameter

from barnabas.access.acl_text import parse_host, parse_operation, parse_principal, parse_resource, parse_super_users
from barnabas.access.explain import explain as explain_access
from barnabas.access.explanation_json import explanation_json, holders_json, holdings_json
from barnabas.access.listing import of as access_of
from barnabas.access.listing import who as holders_of
from barnabas.cli.access.sources import LoadedPolicy, Source, SourceError, load_policy
from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ClusterOptions, UsageError, running_command
from barnabas.cli.output.answer import Answer, as_json, as_yaml
from barnabas.cli.output.exit_status import DENIED, FAILED
from barnabas.common.acl import WILDCARD_PRINCIPAL, AclBindingFilter
from barnabas.common.printable import printable
from barnabas.common.resource import PatternType

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["main"]

app = cluster_app(
    "access",
    "Explain who may do what on a Kafka cluster, ours or any other, and which rule says so.\n\n"
    "`explain` has the exit status 3 for no.",
)
_run = main_of(app)

T = TypeVar("T")


@Parameter(name="*")
@dataclass
class Options:
    """Where the rules are, what decides beside them, and how to answer."""

    bootstrap_server: str | None = None
    """A cluster: host:port, more of them with commas between."""
    command_config: str | None = None
    """Kafka's client properties for it, with TLS and SASL."""
    directory: str | None = None
    """The log directory of a KRaft node, or the __cluster_metadata-0 in it. The node may run."""
    snapshot: str | None = None
    """A snapshot of the metadata (.checkpoint)."""
    config: str | None = None
    """A node's server.properties: its super.users and its default; also its log directory, if no source is given."""
    super_users: str | None = None
    """Principals with semicolons between, as in super.users."""
    allow_everyone: Annotated[bool | None, Parameter(negative="--no-allow-everyone")] = None
    """What allow.everyone.if.no.acl.found is."""
    output: Annotated[Literal["table", "json", "yaml"], Parameter(name=["--output", "-o"])] = "table"
    """A table, or one document for programs."""

    def source(self) -> Source:
        """Raises UsageError if there are several."""
        given = [
            option
            for option, value in (
                ("--bootstrap-server", self.bootstrap_server or self.command_config),
                ("--directory", self.directory),
                ("--snapshot", self.snapshot),
            )
            if value
        ]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)}: only one of them can be the source of the rules")
        if not given and self.config is None:
            raise UsageError(
                "where are the rules? Give --bootstrap-server host:port for a cluster, --directory or --snapshot for "
                "the files of a node, or --config with its server.properties"
            )
        try:
            super_users = None if self.super_users is None else parse_super_users(self.super_users)
        except ValueError as error:
            raise UsageError(f"--super-users: {error}") from error
        return Source(
            self.bootstrap_server,
            self.command_config,
            self.directory or self.snapshot,
            self.config,
            super_users,
            self.allow_everyone,
        )


def main(arguments: Sequence[str]) -> int:
    """See the module for the exit statuses."""
    try:
        return _run(arguments)
    except SourceError as error:
        sys.stderr.write(f"{running_command.get()}: {printable(str(error))}\n")
        return FAILED


@app.command
def explain(
    *,
    principal: str,
    resource: str,
    operation: str,
    host: str = "*",
    options: Options | None = None,
) -> int:
    """Say whether a principal may do something, and why. The exit status is 0 when it may, 3 when it may not.

    For example:

        barnabas access explain --principal User:alice --operation Read --resource Topic:orders --directory /data

    Parameters
    ----------
    principal
        Who, as in User:alice.
    resource
        On what, as in Topic:orders. Cluster needs no name.
    operation
        Does what, as in Read or DESCRIBE_CONFIGS.
    host
        From which IP address; without it, from one that no rule names.
    """
    asked = (
        _parsed(parse_principal, principal),
        _parsed(parse_host, host),
        _parsed(parse_operation, operation),
        _parsed(parse_resource, resource),
    )
    options = options or Options()
    loaded = load_policy(options.source(), [AclBindingFilter(asked[3].type, asked[3].name, PatternType.MATCH)])
    explanation = explain_access(loaded.policy, *asked)
    if options.output != "table":
        _print_document(explanation_json(explanation), loaded, options.output)
    else:
        from barnabas.cli.access.tables import print_explanation

        print_explanation(explanation)
        _print_notes(loaded)
    return 0 if explanation.allowed else DENIED


@app.command
def who(
    resource: str,
    *,
    operation: str | None = None,
    options: Options | None = None,
) -> int:
    """List everybody who may do something on a resource, by its name, by a prefix or by a wildcard.

    For example:

        barnabas access who Topic:orders --operation Write --bootstrap-server localhost:9092

    Parameters
    ----------
    resource
        As in Topic:orders. Cluster needs no name.
    operation
        Only who may do this.
    """
    wanted = _parsed(parse_resource, resource)
    asked = None if operation is None else _parsed(parse_operation, operation)
    options = options or Options()
    loaded = load_policy(options.source(), [AclBindingFilter(wanted.type, wanted.name, PatternType.MATCH)])
    holders = holders_of(loaded.policy, wanted, asked)
    if options.output != "table":
        _print_document(holders_json(holders), loaded, options.output)
    else:
        from barnabas.cli.access.tables import print_holders

        print_holders(holders)
        _print_notes(loaded)
    return 0


@app.command
def of(
    principal: str,
    *,
    options: Options | None = None,
) -> int:
    """List everything that a principal may do.

    For example:

        barnabas access of User:alice --bootstrap-server localhost:9092 --output json

    Parameters
    ----------
    principal
        As in User:alice.
    """
    asked = _parsed(parse_principal, principal)
    options = options or Options()
    filters = [AclBindingFilter(principal=name) for name in (f"{asked.type}:{asked.name}", WILDCARD_PRINCIPAL)]
    loaded = load_policy(options.source(), filters)
    holdings = access_of(loaded.policy, asked)
    if options.output != "table":
        _print_document(holdings_json(holdings), loaded, options.output)
    else:
        from barnabas.cli.access.tables import print_holdings

        print_holdings(holdings)
        _print_notes(loaded)
    return 0


@app.command
def mine(
    *,
    topic: list[str] | None = None,
    group: list[str] | None = None,
    options: ClusterOptions | None = None,
) -> int:
    """Show what you may do yourself. It needs no right on the cluster, and the rules stay hidden.

    The answer covers the cluster, and the topics and groups that you may describe.

    For example:

        barnabas access mine --bootstrap-server localhost:9092 --command-config alice.properties
        barnabas access mine --topic orders --output json

    Parameters
    ----------
    topic
        Only this topic, by its name. May be repeated.
    group
        Only this group, by its id. May be repeated.
    """
    from barnabas.cli.output.authorized_operations import mine_answer

    is_chosen = bool(topic or group)

    async def work(admin: AdminClient) -> Answer:
        return await mine_answer(admin, topic or [] if is_chosen else None, group or [] if is_chosen else None)

    return (options or ClusterOptions()).run(work)


def _parsed(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _print_document(answer: dict[str, object], loaded: LoadedPolicy, output: str) -> None:
    policy = loaded.policy
    answer["source"] = {
        "location": loaded.location,
        "rules": len(policy.rules),
        "super_users": sorted(policy.super_users),
        "super_users_known": loaded.super_users_known,
        "allow_everyone": policy.allow_everyone,
        "notes": list(loaded.notes),
    }
    sys.stdout.write(as_json(answer) if output == "json" else as_yaml(answer))


def _print_notes(loaded: LoadedPolicy) -> None:
    sys.stdout.flush()
    for note in loaded.notes:
        sys.stderr.write(f"note: {printable(note)}\n")
