"""``barnabas access explain|who|of``: explain who may do what. Decisions are those of a node, with the deciding ACL.

``at`` and ``history`` are about the past (``past``). ``mine`` shows the caller's own rights, ``needs`` the least rights
of a client.

Exit status, for scripts: 0 success (for ``explain``: access is allowed), 3 ``explain`` finds access denied, 1 failed
(unreachable cluster, missing right, missing file), 2 invalid command line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from barnabas.access.acl_text import parse_host, parse_operation, parse_principal, parse_resource
from barnabas.access.explain import explain as explain_access
from barnabas.access.explanation_json import (
    member_json,
    needs_json,
)
from barnabas.access.needs import example_of
from barnabas.cli.access import past as past_commands
from barnabas.cli.access.answers import filters_of, filters_on, show_explanation, show_holders, show_holdings
from barnabas.cli.access.app import Options, app, parsed, print_document, print_notes
from barnabas.cli.access.member_options import ClientNeeds, MemberOptions
from barnabas.cli.access.sources import SourceError, load_policy
from barnabas.cli.arguments.cluster_app import main_of
from barnabas.cli.arguments.cluster_options import ClusterOptions, Flag, UsageError, running_command
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.output.answer import Answer, as_json, as_yaml
from barnabas.cli.output.exit_status import DENIED, FAILED
from barnabas.common.acl import AclBindingFilter
from barnabas.common.printable import printable
from barnabas.common.resource import PatternType

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["Options", "main", "past_commands"]

_run = main_of(app)


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
    caller, address = parsed(parse_principal, principal), parsed(parse_host, host)
    wanted, subject = parsed(parse_operation, operation), parsed(parse_resource, resource)
    options = options or Options()
    loaded = load_policy(options.source(), filters_on(subject))
    return show_explanation(loaded, caller, address, wanted, subject, options)


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
    wanted = parsed(parse_resource, resource)
    wanted_operation = None if operation is None else parsed(parse_operation, operation)
    options = options or Options()
    loaded = load_policy(options.source(), filters_on(wanted))
    return show_holders(loaded, wanted, wanted_operation, options, with_denied=denied)


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
    wanted = parsed(parse_principal, principal)
    options = options or Options()
    return show_holdings(load_policy(options.source(), filters_of(wanted)), wanted, options)


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
    owner = None if principal is None else parsed(parse_principal, principal)
    if output != "table":
        document = {"needs": needs_json(client.needs)}
        sys.stdout.write(as_json(document) if output == "json" else as_yaml(document))
    else:
        from barnabas.cli.access.tables import print_needs

        print_needs(client.client, client.needs, owner)
    return 0


def _explain_client(client: ClientNeeds, principal: str, host: str, options: Options) -> int:
    caller, address = parsed(parse_principal, principal), parsed(parse_host, host)
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
        print_document(document, loaded, options.output)
    else:
        from barnabas.cli.access.tables import print_client

        print_client(client.client, caller, explained)
        print_notes(loaded)
    return 0 if allowed else DENIED
