"""``barnabas acls list|add|remove``: the access rules of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from barnabas.access.acl_text import operation_word, pattern_text, permission_word
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

app = cluster_app("acls", "List, add and remove access rules. 'barnabas access' explains what they come to.")
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
    """List rules: all, or those on some resources, or for somebody.

    For example:

        barnabas acls list
        barnabas acls list --topic orders
        barnabas acls list --principal User:alice --output json
        barnabas acls list --topic ord --resource-pattern-type any

    Parameters
    ----------
    principal
        Only rules with this principal, as in User:alice; User:* finds those for everybody. May be repeated.
    operation
        Only rules with this operation, as in Read. May be repeated.
    """
    named = (resources or AclResources()).named()
    pattern = (resources or AclResources()).pattern(PatternType.MATCH)
    who = [(AclPermissionType.ANY, each, None) for each in parse_principals(principal)]
    wanted = filters(named, pattern, who, parse_operations(operation, any_allowed=True))

    async def work(admin: AdminClient) -> Answer:
        found = await _found(admin, wanted)
        sheet = Sheet(columns=("resource", "principal", "permission", "operation", "host"))
        for each in found:
            style = "red" if each.permission == _DENY else ""
            sheet.add(
                pattern_text(each.resource_type, each.name, each.pattern_type), each.principal,
                permission_word(each.permission), operation_word(each.operation), each.host, style=style,
            )  # fmt: skip
        return Answer(
            {"acls": [_document(each) for each in found]},
            [sheet] if found else [],
            [] if found else ["there is no such rule"],
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
    """Add rules: one for each resource, principal, host and operation that is given.

    A rule that is there already is no error.

    For example:

        barnabas acls add --allow-principal User:alice --operation Read --topic orders
        barnabas acls add --allow-principal User:bob --producer --topic ord --resource-pattern-type prefixed
        barnabas acls add --allow-principal User:alice --consumer --topic orders --group billing
        barnabas acls add --deny-principal 'User:*' --deny-host 10.0.0.13 --topic '*' --dry-run

    Parameters
    ----------
    allow_principal
        Who may, as in User:alice; User:* is everybody. May be repeated.
    deny_principal
        Who may not, whatever else allows it. May be repeated.
    operation
        What, as in Read, Write or DescribeConfigs; without it All. May be repeated.
    producer
        What a producer needs: Write, Describe and Create on --topic, Write and Describe on --transactional-id.
    consumer
        What a consumer needs: Read and Describe on --topic, Read on --group.
    idempotent
        With --producer: also IdempotentWrite on the cluster, which brokers before Kafka 2.8 want to see.
    allow_host
        From which IP address --allow-principal may; without it, from any. May be repeated.
    deny_host
        From which IP address --deny-principal may not; without it, from any. May be repeated.
    wait
        Return when every live broker decides by the new rules.
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
        if dry_run:  # The protocol knows no trying here. What is there already would change nothing.
            held = set(await _found(admin, [AclBindingFilter(*each) for each in wanted]))
            changes = [_change(each, "added") for each in wanted if each not in held]
            notes = [f"rule {_words(each)} is there already" for each in wanted if each in held]
            return change_answer(changes, dry_run=True, notes=notes)
        results = merged(
            [await admin.create_acls(part, wait=wait) for part in in_steps(wanted, _RULES_PER_STEP, "adding rules")]
        )
        problems = [
            replace(problem_of(error, right="ALTER on Cluster"), item=f"rule {_words(each)}")
            for each, error in results.errors.items()
        ]
        return change_answer([_change(each, "added") for each in results.values], problems, dry_run=False)

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
    """Remove rules.

    With --allow-principal or --deny-principal just the rules that `add` makes of the same options, as with Kafka's
    tool: without --operation that is the rule with All. With --principal, or without anybody, all rules on the
    resources. A rule that denies may be what keeps somebody out: look with --dry-run first.

    For example:

        barnabas acls remove --allow-principal User:alice --operation Read --topic orders
        barnabas acls remove --principal User:alice --topic orders --dry-run
        barnabas acls remove --topic orders --resource-pattern-type any

    Parameters
    ----------
    allow_principal
        Whose rules that allow, as in User:alice. May be repeated.
    deny_principal
        Whose rules that deny. May be repeated.
    principal
        Whose rules, whether they allow or deny and from whatever host. May be repeated.
    operation
        Rules with this operation. May be repeated.
    producer
        The rules of `add --producer`.
    consumer
        The rules of `add --consumer`.
    idempotent
        With --producer: also the rule of `add --idempotent`.
    allow_host
        Rules that allow from this IP address; without it, from any. May be repeated.
    deny_host
        Rules that deny from this IP address; without it, from any. May be repeated.
    wait
        Return when no live broker decides by the rules any more.
    """
    resources = resources or AclResources()
    pattern = resources.pattern(PatternType.LITERAL)
    named = resources.named()
    if allow_principal or deny_principal:
        if principal:
            raise UsageError(
                "--principal takes all rules of somebody: leave --allow-principal and --deny-principal out"
            )
        rules = bindings(
            named,
            PatternType.LITERAL if pattern in (PatternType.ANY, PatternType.MATCH) else pattern,
            _who(allow_principal, deny_principal, allow_host, deny_host),
            parse_operations(operation),
            producer=producer,
            consumer=consumer,
            idempotent=idempotent,
        )
        wanted = [AclBindingFilter(*each)._replace(pattern_type=pattern) for each in rules]
    else:
        if producer or consumer or idempotent or allow_host or deny_host:
            raise UsageError("whose rules? Give --allow-principal or --deny-principal")
        if not named and not principal:
            raise UsageError("which rules? Give a resource, as in --topic orders, or --principal User:alice")
        who = [(AclPermissionType.ANY, each, None) for each in parse_principals(principal)]
        wanted = filters(named, pattern, who, parse_operations(operation, any_allowed=True))
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        problems = []
        if dry_run:
            gone = await _found(admin, wanted)
        else:
            results = merged(
                [
                    await admin.delete_acls(part, wait=wait)
                    for part in in_steps(wanted, _RULES_PER_STEP, "removing rules")
                ]
            )
            gone = list(dict.fromkeys(each for found in results.values.values() for each in found))
            problems = problems_of(results.errors, right="ALTER on Cluster")
        notes = []
        if not gone and not problems:
            notes.append("no such rule is there; 'barnabas acls list' shows those that are")
        return change_answer([_change(each, "removed") for each in gone], problems, dry_run=dry_run, notes=notes)

    return options.run(work, right="ALTER on Cluster")


def _who(
    allow: Iterable[str] | None,
    deny: Iterable[str] | None,
    allow_host: Sequence[str] | None,
    deny_host: Sequence[str] | None,
) -> list[tuple[AclPermissionType, list[str], list[str]]]:
    if allow_host and not allow:
        raise UsageError("--allow-host belongs to --allow-principal")
    if deny_host and not deny:
        raise UsageError("--deny-host belongs to --deny-principal")
    return [
        (_ALLOW, parse_principals(allow), parse_hosts(allow_host)),
        (_DENY, parse_principals(deny), parse_hosts(deny_host)),
    ]


async def _found(admin: AdminClient, wanted: Sequence[AclBindingFilter]) -> list[AclBinding]:
    """The rules of all filters, in an order that does not change from call to call."""
    found: dict[AclBinding, None] = {}
    for each in wanted:
        found.update([(rule, None) async for rule in admin.describe_acls(each)])
    return sorted(found)


def _words(rule: AclBinding) -> str:
    pattern = pattern_text(rule.resource_type, rule.name, rule.pattern_type)
    host = "" if rule.host == "*" else f" from {rule.host}"
    return f"{permission_word(rule.permission)} {rule.principal} {operation_word(rule.operation)} on {pattern}{host}"


def _change(rule: AclBinding, done: str) -> Change:
    return Change("rule", _words(rule), done, more=_document(rule))


def _document(rule: AclBinding) -> dict[str, object]:
    return {
        "permission": permission_word(rule.permission),
        "principal": rule.principal,
        "host": rule.host,
        "operation": _name(AclOperation, rule.operation),
        "resource_type": _name(ResourceType, rule.resource_type),
        "name": rule.name,
        "pattern_type": _name(PatternType, rule.pattern_type),
    }


def _name(kind: Any, code: int) -> str:
    return str(kind(code).name) if code in kind._value2member_map_ else str(code)
