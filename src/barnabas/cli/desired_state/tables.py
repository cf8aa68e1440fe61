"""Tables of a plan: its steps in order, and the access that they open and close."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from barnabas.access.acl_text import operation_name, resource_type_name
from barnabas.access.any_resource import AnyResourceChange
from barnabas.access.cluster_state import HIDDEN, TOPIC, ConfigTarget, entity_text, is_secret
from barnabas.access.explain import rule_text
from barnabas.access.name_classes import NameClass
from barnabas.access.plan import (
    Change,
    ConfigChange,
    Deletion,
    PartitionsChange,
    Plan,
    QuotaChange,
    Step,
    StepKind,
    TopicCreation,
)
from barnabas.access.proof import AccessChange, Cause, CauseKind, Proof
from barnabas.access.rule_set import Rule
from barnabas.cli.output.table import Sheet
from barnabas.common.acl import AclBinding, AclOperation
from barnabas.common.resource import PatternType
from barnabas.security.authorizer.authorized_operations import supported_operations

__all__ = ["change_text", "plan_sheets"]

_CLASSES_SHOWN = 3
_CAUSES_SHOWN = 3
_CLASSES_LOOKED_AT = 200
"""The maximum number of names whose causes are computed. A table shows only some of them."""
_ADDS, _CHANGES, _REMOVES = "+", "~", "-"
_STYLES = {_ADDS: "bold green", _CHANGES: "bold yellow", _REMOVES: "bold red"}
_CAUSES = {
    CauseKind.RULE_ADDED: "new:",
    CauseKind.RULE_REMOVED: "removed:",
    CauseKind.FIRST_RULE: "the first ACL:",
    CauseKind.LAST_RULE: "the last ACL was removed:",
    CauseKind.SUPER_USER_ADDED: "became a super user",
    CauseKind.SUPER_USER_REMOVED: "no longer a super user",
    CauseKind.DEFAULT_CHANGED: "changed default",
}


def plan_sheets(plan: Plan) -> list[Sheet]:
    sheets = []
    if plan.steps:
        sheet = Sheet("Changes, in this order", ("step", "", "what", "how"), keep=4)
        _add_steps(sheet, plan.steps)
        sheet.caption = f"{_count(plan.change_count, 'change')} in {_count(len(plan.steps), 'step')}"
        sheets.append(sheet)
    if plan.withheld:
        sheet = Sheet("Kept, although the file lacks it (--allow-delete deletes it)", ("", "", "what", "how"), keep=4)
        _add_steps(sheet, plan.withheld, is_numbered=False)
        sheets.append(sheet)
    if plan.impossible:
        sheet = Sheet("Impossible changes", ("what", "why"))
        for change in plan.impossible:
            sheet.add(change.what, change.why, style="bold red")
        sheets.append(sheet)
    if any(step.kind in (StepKind.CREATE_ACLS, StepKind.DELETE_ACLS) for step in plan.steps):
        sheets += _proof_sheets(plan.proof)
    return [*sheets, *_gap_sheets(plan.gaps)]


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _add_steps(sheet: Sheet, steps: Sequence[Step], *, is_numbered: bool = True) -> None:
    for number, step in enumerate(steps, 1):
        for change in step.changes:
            sign, what, how = change_text(step.kind, change)
            sheet.add(str(number) if is_numbered else "", sign, what, how, style=_STYLES[sign])


def change_text(kind: StepKind, change: Change) -> tuple[str, str, str]:
    """Return a sign, the changed item, and the change."""
    if isinstance(change, AclBinding):
        return (_ADDS if kind is StepKind.CREATE_ACLS else _REMOVES), "acl", rule_text(Rule(change))
    if isinstance(change, TopicCreation):
        topic = change.topic
        counts = [
            f"{topic.partitions or 'default'} partitions",
            f"replication factor {topic.replication_factor or 'default'}",
            *(f"{key}={value}" for key, value in sorted(topic.configs.items())),
        ]
        return _ADDS, f"topic {change.name}", ", ".join(counts)
    if isinstance(change, PartitionsChange):
        return _CHANGES, f"topic {change.name}", f"partitions: {change.before} -> {change.after}"
    if isinstance(change, ConfigChange):
        values = (
            (
                key,
                *(
                    HIDDEN if value is not None and is_secret(change.target, key) else value
                    for value in (before, after)
                ),
            )
            for key, before, after in change.values
        )
        return _CHANGES, _target(change.target), _values(values)
    if isinstance(change, QuotaChange):
        return _CHANGES, f"quota of {entity_text(change.entity)}", _values(change.values)
    if isinstance(change, Deletion):
        return _REMOVES, f"{change.what} {change.name}", ""
    if change.is_new:
        return _ADDS, f"user {change.credential}", ""
    return _CHANGES, f"user {change.credential}", f"iterations: {change.before} -> {change.iterations}"


def _target(target: ConfigTarget) -> str:
    return f"topic {target.name}" if target.type == TOPIC else str(target)


def _values(values: Iterable[Sequence[object]]) -> str:
    """Format changed values. A missing value means the default."""

    def text(value: object) -> str:
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        return "(default)" if value is None else str(value)

    return "; ".join(f"{key}: {text(before)} -> {text(after)}" for key, before, after in values)


def _proof_sheets(proof: Proof) -> list[Sheet]:
    sheets = [
        sheet
        for is_opening, title in ((True, "Access that opens"), (False, "Access that closes"))
        if (sheet := _access_sheet(proof, title, is_opening=is_opening)) is not None
    ]
    if not sheets:
        sheet = Sheet()
        sheet.add("No access opens or closes.")
        return [sheet]
    return sheets


def _access_sheet(proof: Proof, title: str, *, is_opening: bool) -> Sheet | None:
    """Return the changes of access, grouped by their cause: principals with the same change share a line."""
    changes = [change for change in proof.changes if (change.opened if is_opening else change.closed)]
    rights = [change for change in proof.any_resource if change.is_allowed == is_opening]
    if not changes and not rights:
        return None
    by_cause: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for change in changes:
        because, cells = _access_cells(change, is_opening=is_opening)
        by_cause.setdefault(because, {}).setdefault(cells, []).append(change.principal)
    for right in rights:
        by_cause.setdefault("", {}).setdefault(_right_cells(right), []).append(right.principal)
    sheet = Sheet(title, ("", "who", "host", "operations", "names"), keep=5)
    sign = _ADDS if is_opening else _REMOVES
    for because, accesses in sorted(by_cause.items(), key=lambda entry: not entry[0]):
        sheet.add_heading(f"because of {because}" if because else "as a consequence")
        for cells, principals in accesses.items():
            sheet.add(sign, ", ".join(dict.fromkeys(principals)), *cells, style=_STYLES[sign])
    sheet.caption = _legend(changes, rights, by_cause)
    return sheet


def _legend(
    changes: Sequence[AccessChange],
    rights: Sequence[AnyResourceChange],
    by_cause: Mapping[str, Iterable[Sequence[str]]],
) -> str:
    """Explain the signs that the table uses."""
    parts = []
    if "*" in {*(change.principal for change in changes), *(right.principal for right in rights)}:
        parts.append("* means all principals without their own ACLs on these names")
    shown = [name_class.names for change in changes for name_class in islice(change.classes, _CLASSES_SHOWN)]
    prefix = next((names for names in shown if _is_prefix(names)), None)
    if prefix is not None:
        kind = resource_type_name(prefix.resource_type)
        parts.append(
            f"{kind}:{prefix.name}* means the names with this prefix that no narrower ACL covers; "
            "narrower names have their own lines if their access changes"
        )
    texts = (text for because, accesses in by_cause.items() for text in (because, *(cells[-1] for cells in accesses)))
    if any(text.endswith(" more") for text in texts):
        parts.append("--output json lists all names and causes")
    return "; ".join(parts)


def _access_cells(change: AccessChange, *, is_opening: bool) -> tuple[str, tuple[str, ...]]:
    """Return the cause, and the cells after the principal."""
    codes = change.opened if is_opening else change.closed
    count = len(change.classes)
    looked_at = list(islice(change.classes, _CLASSES_LOOKED_AT))
    causes = _causes(
        cause for name_class in looked_at for cause in (name_class.opened_by if is_opening else name_class.closed_by)
    )
    shown = causes[:_CAUSES_SHOWN]
    because = _some(shown, len(causes))
    if count > len(looked_at) and len(causes) >= _CAUSES_SHOWN:
        because = "; ".join(shown) + " and more"
    return because, (
        _hosts(change.hosts, change.hosts_except),
        _operations(codes, change.resource_type),
        _some([_names(name_class.names) for name_class in looked_at[:_CLASSES_SHOWN]], count),
    )


def _right_cells(change: AnyResourceChange) -> tuple[str, ...]:
    word = "an idempotent producer" if change.operation == AclOperation.WRITE else "some"
    kind = resource_type_name(change.resource_type)
    return (
        _hosts(change.hosts, change.hosts_except),
        operation_name(change.operation),
        f"some {kind} ({word})" if kind == "Topic" else f"some {kind}",
    )


def _hosts(hosts: Sequence[str], excepted: Sequence[str]) -> str:
    return ", ".join(hosts) + (f" except {', '.join(excepted)}" if excepted else "")


def _operations(codes: Sequence[int], resource_type: int) -> str:
    supported = set(map(int, supported_operations(resource_type)))
    if len(supported) > 1 and supported <= set(codes):
        return "All"
    return ", ".join(map(operation_name, codes))


def _is_prefix(names: NameClass) -> bool:
    return names.pattern_type == PatternType.PREFIXED and not names.is_rest


def _names(names: NameClass) -> str:
    kind = resource_type_name(names.resource_type)
    if names.pattern_type == PatternType.LITERAL:
        return f"{kind}:{names.name}"
    if names.is_rest:
        return f"every other {kind} (as {names.example})"
    return f"{kind}:{names.name}* (as {names.example})"


def _causes(causes: Iterable[Cause]) -> list[str]:
    """Return the texts of causes. ACLs that differ only in their operation share one."""
    operations: dict[tuple[CauseKind, AclBinding | None], list[str]] = {}
    for cause in dict.fromkeys(causes):
        binding = cause.binding
        alike = None if binding is None else binding._replace(operation=AclOperation.ANY)
        operations.setdefault((cause.kind, alike), []).append(
            "" if binding is None else operation_name(binding.operation)
        )
    return [_cause(kind, binding, names) for (kind, binding), names in operations.items()]


def _cause(kind: CauseKind, binding: AclBinding | None, operations: Sequence[str]) -> str:
    if binding is None:
        return _CAUSES[kind]
    text = rule_text(Rule(binding)).replace(
        f" {operation_name(AclOperation.ANY)} on ", f" {', '.join(operations)} on ", 1
    )
    return f"{_CAUSES[kind]} {text}"


def _some(shown: Sequence[str], count: int) -> str:
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return "; ".join(shown) + more


def _gap_sheets(gaps: Sequence[NameClass]) -> list[Sheet]:
    if not gaps:
        return []
    sheet = Sheet("Closed for a moment between two changes: no order of the ACLs keeps this access open", ("",))
    for gap in gaps:
        sheet.add(_names(gap))
    return [sheet]
