"""``barnabas access explain|who|of``: explain who may do what. Decisions are those of a node, with the deciding ACL.

``mine`` shows the caller's own rights, ``needs`` the least rights of a client.

Exit status, for scripts: 0 success (for ``explain``: access is allowed), 3 ``explain`` finds access denied, 1 failed
(unreachable cluster, missing right, missing file), 2 invalid command line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from barnabas.access.acl_text import parse_host, parse_operation, parse_principal, parse_resource, parse_super_users
from barnabas.access.explain import explain as explain_access
from barnabas.access.explanation_json import (
    explanation_json,
    holders_json,
    holdings_json,
    member_json,
    needs_json,
)
from barnabas.access.listing import access_of_principal, principals_with_access
from barnabas.access.needs import example_of
from barnabas.cli.access.member_options import ClientNeeds, MemberOptions
from barnabas.cli.access.sources import LoadedPolicy, Source, SourceError, load_policy
from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ClusterOptions, Flag, UsageError, running_command
from barnabas.cli.arguments.parameter import Parameter
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
    "Explain who may do what on any Kafka cluster, and which ACL decides it.\n\n"
    "The exit status of `explain` is 3 when access is denied.",
)
_run = main_of(app)

T = TypeVar("T")


@Parameter(name="*")
@dataclass
class Options:
    """The source of the ACLs, the authorizer settings, and the output format."""

    bootstrap_server: str | None = None
    """The address of a broker, host:port; separate several with commas. Default, without a file: localhost:9092."""
    command_config: str | None = None
    """A file of Kafka client properties for the cluster, with TLS and SASL settings."""
    directory: str | None = None
    """The log directory of a KRaft node, or its __cluster_metadata-0 directory. The node may be running."""
    snapshot: str | None = None
    """A metadata snapshot (.checkpoint)."""
    config: str | None = None
    """A node's server.properties, for super.users, the default, and, without another source, the log directory."""
    super_users: str | None = None
    """Super users, separated by semicolons, as in super.users."""
    allow_everyone: Annotated[bool | None, Parameter(negative="--no-allow-everyone")] = None
    """The value of allow.everyone.if.no.acl.found."""
    output: Annotated[Literal["table", "json", "yaml"], Parameter(name=["--output", "-o"])] = "table"
    """Output format: a table, or one document for programs."""

    def source(self) -> Source:
        """Return the source of ACLs. Raise UsageError for several sources or none."""
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
            raise UsageError(f"{' and '.join(given)} can't be used together: choose one source of ACLs")
        try:
            super_users = None if self.super_users is None else parse_super_users(self.super_users)
        except ValueError as error:
            raise UsageError(f"--super-users: {error}") from error
        is_default = not given and self.config is None
        return Source(
            "localhost:9092" if is_default else self.bootstrap_server,
            self.command_config,
            self.directory or self.snapshot,
            self.config,
            super_users,
            self.allow_everyone,
        )


def main(arguments: Sequence[str]) -> int:
    """Run the command and return an exit status of the module's documentation."""
    try:
        return _run(arguments)
    except SourceError as error:
        sys.stderr.write(f"{running_command.get()}: {printable(str(error))}\n")
        if error.advice:
            sys.stderr.write(f"  next: {printable(error.advice)}\n")
        return FAILED


@app.command
def explain(
    *,
    principal: str,
    resource: str | None = None,
    operation: str | None = None,
    host: str = "*",
    member: MemberOptions | None = None,
    options: Options | None = None,
) -> int:
    """Decide whether a principal may perform an operation, and show why. Exit status: 0 allowed, 3 denied.

    Without a resource and an operation, name a kind of client: each right that it needs is decided, and the exit
    status is 0 if it has all of them. A right on all names that begin with a text is decided for one of these names.

    For example:

        barnabas access explain --principal User:alice --operation Read --resource Topic:orders --directory /data
        barnabas access explain --principal User:billing --share-consumer billing --topics orders
        barnabas access explain --principal User:counter --streams word-count --read-topics lines --topics counts

    Parameters
    ----------
    principal
        The principal, for example User:alice.
    resource
        The resource, for example Topic:orders. Cluster needs no name.
    operation
        The operation, for example Read or DESCRIBE_CONFIGS.
    host
        The IP address of the client. Default: an address that no ACL names.
    """
    client = (member or MemberOptions()).client_needs()
    if client is not None:
        if resource is not None or operation is not None:
            raise UsageError("--resource and --operation can't be used with a client: its needs name both")
        return _explain_client(client, principal, host, options or Options())
    if resource is None or operation is None:
        raise UsageError("nothing to explain: use --resource with --operation, or name a client, as with --consumer")
    request = (
        _parsed(parse_principal, principal),
        _parsed(parse_host, host),
        _parsed(parse_operation, operation),
        _parsed(parse_resource, resource),
    )
    options = options or Options()
    loaded = load_policy(options.source(), [AclBindingFilter(request[3].type, request[3].name, PatternType.MATCH)])
    explanation = explain_access(loaded.policy, *request)
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
    denied: Flag = False,
    options: Options | None = None,
) -> int:
    """List the principals with access to a resource, by literal, prefixed and wildcard ACLs.

    For example:

        barnabas access who Topic:orders --operation Write --bootstrap-server localhost:9092
        barnabas access who Topic:orders --denied

    Parameters
    ----------
    resource
        The resource, for example Topic:orders. Cluster needs no name.
    operation
        Only principals that may perform this operation.
    denied
        Also list principals that ACLs name, but that have no access.
    """
    wanted = _parsed(parse_resource, resource)
    wanted_operation = None if operation is None else _parsed(parse_operation, operation)
    options = options or Options()
    loaded = load_policy(options.source(), [AclBindingFilter(wanted.type, wanted.name, PatternType.MATCH)])
    holders = principals_with_access(loaded.policy, wanted, wanted_operation)
    if options.output != "table":
        _print_document(holders_json(holders), loaded, options.output)
    else:
        from barnabas.cli.access.tables import print_holders

        print_holders(holders, with_denied=denied)
        _print_notes(loaded)
    return 0


@app.command
def of(
    principal: str,
    *,
    options: Options | None = None,
) -> int:
    """List all access of a principal.

    For example:

        barnabas access of User:alice --bootstrap-server localhost:9092 --output json

    Parameters
    ----------
    principal
        The principal, for example User:alice.
    """
    wanted = _parsed(parse_principal, principal)
    options = options or Options()
    filters = [AclBindingFilter(principal=name) for name in (f"{wanted.type}:{wanted.name}", WILDCARD_PRINCIPAL)]
    loaded = load_policy(options.source(), filters)
    holdings = access_of_principal(loaded.policy, wanted)
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
    """Show what you may do yourself. This needs no rights on the cluster, and does not show the ACLs.

    The result covers the cluster, and the topics and groups that you may describe.

    For example:

        barnabas access mine --bootstrap-server localhost:9092 --command-config alice.properties
        barnabas access mine --topic orders --output json

    Parameters
    ----------
    topic
        Only the topic with this name. May be repeated.
    group
        Only the group with this id. May be repeated.
    """
    from barnabas.cli.output.authorized_operations import mine_answer

    is_chosen = bool(topic or group)

    async def work(admin: AdminClient) -> Answer:
        return await mine_answer(admin, topic or [] if is_chosen else None, group or [] if is_chosen else None)

    return (options or ClusterOptions()).run(work)


@app.command
def needs(
    *,
    principal: str | None = None,
    member: MemberOptions | None = None,
    output: Annotated[Literal["table", "json", "yaml"], Parameter(name=["--output", "-o"])] = "table",
) -> int:
    """List the least rights of a client. It contacts no cluster.

    For example:

        barnabas access needs --consumer billing --topics orders
        barnabas access needs --consumer billing --topic-prefixes orders- --principal User:billing
        barnabas access needs --share-consumer billing --topics orders
        barnabas access needs --streams word-count --read-topics lines --topics counts --exactly-once
        barnabas access needs --transactional-producer billing --topics invoices --group billing --read-topics orders

    Parameters
    ----------
    principal
        Print the commands that add these rights for a principal, for example User:billing.
    output
        Output format: a table, or one document for programs.
    """
    client = (member or MemberOptions()).client_needs()
    if client is None:
        raise UsageError(
            "no client given: use --consumer, --share-consumer, --streams or --transactional-producer with its id"
        )
    owner = None if principal is None else _parsed(parse_principal, principal)
    if output != "table":
        document = {"needs": needs_json(client.needs)}
        sys.stdout.write(as_json(document) if output == "json" else as_yaml(document))
    else:
        from barnabas.cli.access.tables import print_needs

        print_needs(client.client, client.needs, owner)
    return 0


def _explain_client(client: ClientNeeds, principal: str, host: str, options: Options) -> int:
    caller, address = _parsed(parse_principal, principal), _parsed(parse_host, host)
    named = [(need, example_of(need)) for need in client.needs]
    filters = [
        AclBindingFilter(resource.type, resource.name, PatternType.MATCH)
        for resource in dict.fromkeys(resource for _, resource in named)
    ]
    loaded = load_policy(options.source(), filters)
    explained = [
        (need, explain_access(loaded.policy, caller, address, need.operation, resource)) for need, resource in named
    ]
    allowed = all(explanation.allowed for _, explanation in explained)
    if options.output != "table":
        document = {"client": client.client, "allowed": allowed, "needs": member_json(explained)}
        _print_document(document, loaded, options.output)
    else:
        from barnabas.cli.access.tables import print_client

        print_client(client.client, caller, explained)
        _print_notes(loaded)
    return 0 if allowed else DENIED


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
