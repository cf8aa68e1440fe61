"""Tables that ``barnabas access`` prints."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from barnabas.access.acl_text import operation_name, pattern_text
from barnabas.access.explain import Explanation, rule_text
from barnabas.access.history import AccessStep, ChangedAccess
from barnabas.access.listing import Access, AccessOfPrincipal, Grant, PrincipalsWithAccess
from barnabas.access.needs import Need
from barnabas.access.rule_set import Rule
from barnabas.cli.arguments.moment import time_text
from barnabas.cli.output.table import Sheet, show
from barnabas.common.resource import ResourceType
from barnabas.security.authorizer.authorized_operations import supported_operations
from barnabas.security.principal import Principal

__all__ = [
    "print_client",
    "print_explanation",
    "print_history",
    "print_holders",
    "print_holdings",
    "print_needs",
]

_SHOWN_RULES_MAX = 10


def print_explanation(e: Explanation) -> None:
    sheet = Sheet()
    host = "" if e.host == "*" else f" from {e.host}"
    request = f"{operation_name(e.operation)} on {e.resource} for {e.principal}{host}"
    style = "bold green" if e.allowed else "bold red"
    sheet.add("ALLOWED" if e.allowed else "DENIED", request, style=style)
    sheet.add("because", e.text)
    if e.rule is not None and e.rule.id is not None:
        sheet.add("rule", str(e.rule.id))
    _add_rules(sheet, "overridden", e.overridden)
    _add_rules(sheet, "agreeing", e.agreeing)
    _add_rules(sheet, "other host", e.other_host)
    _add_rules(sheet, "other operation", e.other_operation)
    show(sheet)


def print_holders(holders: PrincipalsWithAccess, *, with_denied: bool = False) -> None:
    """Print the principals that have access; with ``with_denied`` also those that ACLs only deny or name in vain."""
    what = "do what" if holders.operation is None else operation_name(holders.operation)
    sheet = Sheet(
        f"Who may {what} on {holders.resource}", ("principal", "host", "operations", "denied", "rules"), keep=4
    )
    with_access = {grant.principal for grant in holders.grants if grant.operations}
    shown = [grant for grant in holders.grants if with_denied or grant.principal in with_access]
    for grant in shown:
        sheet.add(*_grant_cells(grant, holders))
    if not holders.has_rules:
        rest = "all other principals may" if holders.default_allows else "no other principal may"
        sheet.caption = f"no ACL names {holders.resource}: {rest} (allow.everyone.if.no.acl.found)"
    elif shown:
        sheet.caption = "* means every principal or host not listed above it"
    else:
        sheet.caption = f"no principal has this access: ACLs exist for {holders.resource}, and none of them allows it"
    left_out = len({grant.principal for grant in holders.grants} - {grant.principal for grant in shown})
    if left_out:
        principals = "1 principal has" if left_out == 1 else f"{left_out} principals have"
        sheet.caption += f"; {principals} no access, although ACLs name them (--denied)"
    show(sheet)


def print_holdings(holdings: AccessOfPrincipal) -> None:
    columns = ("resource", "host", "operations", "denied", "except", "rules")
    sheet = Sheet(f"Access of {holdings.principal}", columns, keep=5)
    for access in holdings.accesses:
        sheet.add(*_access_cells(access))
    sheet.drop_last_column_if_empty()  # DescribeAcls returns no ids.
    if holdings.is_super_user:
        sheet.caption = f"{holdings.principal} is a super user and may do everything"
    elif holdings.default_allows:
        sheet.caption = "in addition: everything on resources without ACLs (allow.everyone.if.no.acl.found)"
    else:
        sheet.caption = "no other access" if holdings.accesses else "no access: no ACL names this principal"
    show(sheet)


def print_history(steps: Sequence[AccessStep], subject: object, beginning: str) -> None:
    """Print each change of access, under the records that caused it. ``beginning`` says since when they are known."""
    sheet = Sheet(f"Changes of access: {subject}", ("", "principal", "host", "resource", "operations"), keep=5)
    for step in steps:
        sheet.add_heading(f"{time_text(step.time_ms)}, {_offsets(step)}: {_rule_changes(step)}")
        for change in step.changes:
            _add_change(sheet, change)
        if not step.changes:
            sheet.add("  same", "", "", "", "no decision changed, because of other rules")
    count = "no change" if not steps else "1 change" if len(steps) == 1 else f"{len(steps)} changes"
    sheet.caption = f"{count} of rules that concern {subject}; {beginning}"
    show(sheet)


def _offsets(step: AccessStep) -> str:
    shown = ", ".join(map(str, step.offsets[:_SHOWN_RULES_MAX]))
    more = f" and {len(step.offsets) - _SHOWN_RULES_MAX} more" if len(step.offsets) > _SHOWN_RULES_MAX else ""
    return f"offset{'' if len(step.offsets) == 1 else 's'} {shown}{more}"


def _rule_changes(step: AccessStep) -> str:
    """Return the rules that came and went: ``+ ALLOW ... (id); - DENY ... (id)``."""
    signed = [("-", rule) for rule in step.removed] + [("+", rule) for rule in step.added]
    texts = [f"{sign} {rule_text(rule)} ({rule.id})" for sign, rule in signed[:_SHOWN_RULES_MAX]]
    if len(signed) > _SHOWN_RULES_MAX:
        texts.append(f"and {len(signed) - _SHOWN_RULES_MAX} more rules (--output json lists all)")
    return "; ".join(texts)


def _add_change(sheet: Sheet, change: ChangedAccess) -> None:
    hosts = ", ".join(change.hosts)
    if change.hosts_except:
        hosts += f" except {', '.join(change.hosts_except)}"
    resource = change.resource
    if change.names_except:
        names = [
            pattern_text(change.resource_type, *pattern).partition(":")[2]
            for pattern in change.names_except[:_SHOWN_RULES_MAX]
        ]
        more = len(change.names_except) - len(names)
        resource += f" except {', '.join(names)}" + (f" and {more} more" if more else "")
    for word, codes, style in (("  opens", change.opened, "green"), ("  closes", change.closed, "red")):
        if codes:
            operations = _operations(codes, change.resource_type, is_all_asked=True)
            sheet.add(word, change.principal, hosts, resource, operations, style=style)


def print_needs(client: str, needs: Sequence[Need], principal: Principal | None) -> None:
    """Print what a client needs; with ``principal`` also the commands that add the rights."""
    sheet = Sheet(f"Needs of {client}", ("resource", "operation", "because it"), keep=2)
    for need in needs:
        sheet.add(_subject(need), operation_name(need.operation), need.reason)
    show(sheet)
    if principal is not None:
        for need in needs:
            option = f"--{_OPTIONS[need.resource.type]} {shlex.quote(need.resource.name)}"
            pattern = " --resource-pattern-type prefixed" if need.is_prefixed else ""
            allow = shlex.quote(f"{principal.type}:{principal.name}")
            operation = operation_name(need.operation)
            print(f"barnabas acls add {option}{pattern} --operation {operation} --allow-principal {allow}")


def print_client(client: str, principal: Principal, explained: Sequence[tuple[Need, Explanation]]) -> None:
    """Print the rights that a client needs, and the decision about each."""
    missing = sum(not explanation.allowed for _, explanation in explained)
    title = f"{principal} as {client}: " + ("has all rights" if not missing else f"lacks {missing} of {len(explained)}")
    sheet = Sheet(title, ("", "resource", "operation", "because"), keep=3)
    for need, explanation in explained:
        style = "bold green" if explanation.allowed else "bold red"
        word = "allowed" if explanation.allowed else "DENIED"
        sheet.add(word, _subject(need), operation_name(need.operation), explanation.text, style=style)
    show(sheet)


def _subject(need: Need) -> str:
    return f"{need.resource}*" if need.is_prefixed else str(need.resource)


_OPTIONS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transactional-id",
}


def _grant_cells(grant: Grant, holders: PrincipalsWithAccess) -> list[str]:
    if grant.is_super_user:
        return [grant.principal, "*", "everything (super user)", "", ""]
    operations = _operations(grant.operations, holders.resource.type, is_all_asked=holders.operation is None)
    denied = _operations(grant.denied, holders.resource.type, is_all_asked=holders.operation is None)
    return [grant.principal, grant.host, operations, denied, _patterns(grant.rules)]


def _access_cells(access: Access) -> list[str]:
    kind = access.resource_type
    exceptions = ", ".join(pattern_text(kind, *pattern).partition(":")[2] for pattern in access.exceptions)
    return [
        pattern_text(kind, access.name, access.pattern_type),
        access.host,
        _operations(access.operations, kind, is_all_asked=True),
        _operations(access.denied, kind, is_all_asked=True),
        exceptions,
        _ids(access.rules),
    ]


def _operations(codes: Sequence[int], resource_type: int, *, is_all_asked: bool) -> str:
    supported = set(map(int, supported_operations(resource_type)))
    if is_all_asked and len(supported) > 1 and supported <= set(codes):
        return "All"
    return _words(codes)


def _words(codes: Iterable[int]) -> str:
    return ", ".join(map(operation_name, codes))


def _patterns(rules: Sequence[Rule]) -> str:
    """Return the ids of ACLs, or without ids their patterns, which differ for the ACLs of one resource."""
    return _ids(rules) or ", ".join(
        dict.fromkeys(pattern_text(r.binding.resource_type, r.binding.name, r.binding.pattern_type) for r in rules)
    )


def _ids(rules: Sequence[Rule]) -> str:
    ids = [str(rule.id) for rule in rules if rule.id is not None]
    more = f" and {len(ids) - _SHOWN_RULES_MAX} more (--output json lists all)" if len(ids) > _SHOWN_RULES_MAX else ""
    return ", ".join(ids[:_SHOWN_RULES_MAX]) + more


def _add_rules(sheet: Sheet, label: str, rules: Sequence[Rule]) -> None:
    for index, rule in enumerate(rules[:_SHOWN_RULES_MAX]):
        rule_id = "" if rule.id is None else f"  ({rule.id})"
        sheet.add("" if index else label, rule_text(rule) + rule_id)
    if len(rules) > _SHOWN_RULES_MAX:
        sheet.add("", f"and {len(rules) - _SHOWN_RULES_MAX} more (--output json lists all)")
