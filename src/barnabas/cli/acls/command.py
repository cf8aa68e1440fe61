"""``barnabas acls list|add|remove``: the ACLs of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from barnabas.access.acl_text import operation_name, pattern_text, permission_name
from barnabas.cli.arguments.acl_options import (
    AclResources,
    bindings,
    filters,
    parse_hosts,
    parse_operations,
    parse_principals,
)
from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ChangeOptions, ClusterOptions, Flag, UsageError
from barnabas.cli.arguments.topic_selection import merged
from barnabas.cli.output.advice import problem_of, problems_of
from barnabas.cli.output.answer import Answer, Change, change_answer
from barnabas.cli.output.progress import in_steps
from barnabas.cli.output.table import Sheet
from barnabas.common.acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["app", "main"]

app = cluster_app("acls", "List, add and remove ACLs. 'barnabas access' explains their effect.")
main = main_of(app)

_RULES_PER_STEP = 2000
_ALLOW, _DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


@app.command(name="list")
def list_(
    *,
    principal: list[str] | None = None,
    operation: list[str] | None = None,
    resources: AclResources | None = None,
    options: ClusterOptions | None = None,
) -> int:
    """List ACLs: all, or those of some resources or principals.

    For example:

        barnabas acls list
        barnabas acls list --topic orders
        barnabas acls list --principal User:alice --output json
        barnabas acls list --topic ord --resource-pattern-type any

    Parameters
    ----------
    principal
        Only ACLs of this principal, for example User:alice; User:* finds ACLs for all users. May be repeated.
    operation
        Only ACLs with this operation, for example Read. May be repeated.
    """
    named = (resources or AclResources()).named()
    pattern = (resources or AclResources()).pattern(PatternType.MATCH)
    who = [(AclPermissionType.ANY, parsed, None) for parsed in parse_principals(principal)]
    wanted = filters(named, pattern, who, parse_operations(operation, any_allowed=True))

    async def work(admin: AdminClient) -> Answer:
        found = await _found(admin, wanted)
        sheet = Sheet(columns=("resource", "principal", "permission", "operation", "host"), keep=5)
        for acl in found:
            style = "red" if acl.permission == _DENY else ""
            sheet.add(
                pattern_text(acl.resource_type, acl.name, acl.pattern_type), acl.principal,
                permission_name(acl.permission), operation_name(acl.operation), acl.host, style=style,
            )  # fmt: skip
        return Answer(
            {"acls": [_document(acl) for acl in found]},
            [sheet] if found else [],
            [] if found else ["no such ACL exists"],
        )

    return (options or ClusterOptions()).run(work, right="DESCRIBE on Cluster")


@app.command(name=["add", "create"])
def add(
    *,
    allow_principal: list[str] | None = None,
    deny_principal: list[str] | None = None,
    operation: list[str] | None = None,
    producer: Flag = False,
    consumer: Flag = False,
    idempotent: Flag = False,
    allow_host: list[str] | None = None,
    deny_host: list[str] | None = None,
    wait: Flag = False,
    resources: AclResources | None = None,
    options: ChangeOptions | None = None,
) -> int:
    """Add ACLs: one for each combination of resource, principal, host and operation.

    Adding an ACL that exists already is not an error.

    For example:

        barnabas acls add --allow-principal User:alice --operation Read --topic orders
        barnabas acls add --allow-principal User:bob --producer --topic ord --resource-pattern-type prefixed
        barnabas acls add --allow-principal User:alice --consumer --topic orders --group billing
        barnabas acls add --deny-principal 'User:*' --deny-host 10.0.0.13 --topic '*' --dry-run

    Parameters
    ----------
    allow_principal
        The principal to allow, for example User:alice; User:* is all users. May be repeated.
    deny_principal
        The principal to deny. Deny takes precedence over allow. May be repeated.
    operation
        The operation, for example Read, Write or DescribeConfigs. Default: All. May be repeated.
    producer
        The ACLs of a producer: Write, Describe and Create on --topic, Write and Describe on --transactional-id.
    consumer
        The ACLs of a consumer: Read and Describe on --topic, Read on --group.
    idempotent
        With --producer: also IdempotentWrite on the cluster, which brokers before Kafka 2.8 require.
    allow_host
        The IP address that --allow-principal connects from. Default: any. May be repeated.
    deny_host
        The IP address that --deny-principal connects from. Default: any. May be repeated.
    wait
        Return when every live broker applies the new ACLs.
    """
    resources = resources or AclResources()
    wanted = bindings(
        resources.named(),
        resources.pattern(PatternType.LITERAL),
        _who(allow_principal, deny_principal, allow_host, deny_host),
        parse_operations(operation),
        producer=producer,
        consumer=consumer,
        idempotent=idempotent,
    )
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        if dry_run:  # The protocol has no dry run for this. An existing ACL would not change.
            held = set(await _found(admin, [AclBindingFilter(*binding) for binding in wanted]))
            changes = [_change(binding, "added") for binding in wanted if binding not in held]
            notes = [f"ACL {_words(binding)} exists already" for binding in wanted if binding in held]
            return change_answer(changes, dry_run=True, notes=notes)
        results = merged(
            [await admin.create_acls(part, wait=wait) for part in in_steps(wanted, _RULES_PER_STEP, "adding ACLs")]
        )
        problems = [
            replace(problem_of(error, right="ALTER on Cluster"), item=f"ACL {_words(acl)}")
            for acl, error in results.errors.items()
        ]
        return change_answer([_change(acl, "added") for acl in results.values], problems, dry_run=False)

    return options.run(work, right="ALTER on Cluster")


@app.command(name=["remove", "delete"])
def remove(
    *,
    allow_principal: list[str] | None = None,
    deny_principal: list[str] | None = None,
    principal: list[str] | None = None,
    operation: list[str] | None = None,
    producer: Flag = False,
    consumer: Flag = False,
    idempotent: Flag = False,
    allow_host: list[str] | None = None,
    deny_host: list[str] | None = None,
    wait: Flag = False,
    resources: AclResources | None = None,
    options: ChangeOptions | None = None,
) -> int:
    """Remove ACLs.

    --allow-principal and --deny-principal select exactly the ACLs that `add` creates from the same options, as in
    Kafka's tool: without --operation, the ACL with All. --principal, or no principal, selects all ACLs on the
    resources. Removing a deny ACL can open access: try --dry-run first.

    For example:

        barnabas acls remove --allow-principal User:alice --operation Read --topic orders
        barnabas acls remove --principal User:alice --topic orders --dry-run
        barnabas acls remove --topic orders --resource-pattern-type any

    Parameters
    ----------
    allow_principal
        Remove allow ACLs of this principal, for example User:alice. May be repeated.
    deny_principal
        Remove deny ACLs of this principal. May be repeated.
    principal
        Remove allow and deny ACLs of this principal, for any host. May be repeated.
    operation
        Only ACLs with this operation. May be repeated.
    producer
        The ACLs that `add --producer` creates.
    consumer
        The ACLs that `add --consumer` creates.
    idempotent
        With --producer: also the ACL that `add --idempotent` creates.
    allow_host
        Allow ACLs with this IP address. Default: those for any address. May be repeated.
    deny_host
        Deny ACLs with this IP address. Default: those for any address. May be repeated.
    wait
        Return when no live broker still applies the ACLs.
    """
    resources = resources or AclResources()
    pattern = resources.pattern(PatternType.LITERAL)
    named = resources.named()
    if allow_principal or deny_principal:
        if principal:
            raise UsageError("--principal selects all ACLs of a principal: omit --allow-principal and --deny-principal")
        rules = bindings(
            named,
            PatternType.LITERAL if pattern in (PatternType.ANY, PatternType.MATCH) else pattern,
            _who(allow_principal, deny_principal, allow_host, deny_host),
            parse_operations(operation),
            producer=producer,
            consumer=consumer,
            idempotent=idempotent,
        )
        wanted = [AclBindingFilter(*rule)._replace(pattern_type=pattern) for rule in rules]
    else:
        if producer or consumer or idempotent or allow_host or deny_host:
            raise UsageError("no principal given: use --allow-principal or --deny-principal")
        if not named and not principal:
            raise UsageError(
                "no ACLs selected: name a resource, for example --topic orders, or use --principal User:alice"
            )
        who = [(AclPermissionType.ANY, parsed, None) for parsed in parse_principals(principal)]
        wanted = filters(named, pattern, who, parse_operations(operation, any_allowed=True))
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        problems = []
        if dry_run:
            removed = await _found(admin, wanted)
        else:
            results = merged(
                [
                    await admin.delete_acls(part, wait=wait)
                    for part in in_steps(wanted, _RULES_PER_STEP, "removing ACLs")
                ]
            )
            removed = list(dict.fromkeys(acl for found in results.values.values() for acl in found))
            problems = problems_of(results.errors, right="ALTER on Cluster")
        notes = []
        if not removed and not problems:
            notes.append("no such ACL exists; 'barnabas acls list' lists the ACLs")
        return change_answer([_change(acl, "removed") for acl in removed], problems, dry_run=dry_run, notes=notes)

    return options.run(work, right="ALTER on Cluster")


def _who(
    allow: Iterable[str] | None,
    deny: Iterable[str] | None,
    allow_host: Sequence[str] | None,
    deny_host: Sequence[str] | None,
) -> list[tuple[AclPermissionType, list[str], list[str]]]:
    if allow_host and not allow:
        raise UsageError("--allow-host needs --allow-principal")
    if deny_host and not deny:
        raise UsageError("--deny-host needs --deny-principal")
    return [
        (_ALLOW, parse_principals(allow), parse_hosts(allow_host)),
        (_DENY, parse_principals(deny), parse_hosts(deny_host)),
    ]


async def _found(admin: AdminClient, wanted: Sequence[AclBindingFilter]) -> list[AclBinding]:
    """Return the ACLs that match a filter, in a stable order."""
    found: dict[AclBinding, None] = {}
    for acl in wanted:
        found.update([(rule, None) async for rule in admin.describe_acls(acl)])
    return sorted(found)


def _words(rule: AclBinding) -> str:
    pattern = pattern_text(rule.resource_type, rule.name, rule.pattern_type)
    host = "" if rule.host == "*" else f" from {rule.host}"
    return f"{permission_name(rule.permission)} {rule.principal} {operation_name(rule.operation)} on {pattern}{host}"


def _change(rule: AclBinding, done: str) -> Change:
    return Change("rule", _words(rule), done, more=_document(rule))


def _document(rule: AclBinding) -> dict[str, object]:
    return {
        "permission": permission_name(rule.permission),
        "principal": rule.principal,
        "host": rule.host,
        "operation": _name(AclOperation, rule.operation),
        "resource_type": _name(ResourceType, rule.resource_type),
        "name": rule.name,
        "pattern_type": _name(PatternType, rule.pattern_type),
    }


def _name(kind: Any, code: int) -> str:
    return str(kind(code).name) if code in kind._value2member_map_ else str(code)
