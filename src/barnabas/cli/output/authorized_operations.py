"""Show the caller's own rights, from describe requests (KIP-430), which don't need a right on the cluster.

Topics and groups that the caller may not describe are omitted, as if they did not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from barnabas.access.acl_text import operation_name
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Answer
from barnabas.cli.output.progress import in_steps
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient
    from barnabas.common.acl import AclOperation

__all__ = ["add_operations", "mine_answer", "operation_names", "operations_sheet"]

_PER_STEP = 200


def operation_names(operations: Collection[AclOperation] | None) -> list[str] | None:
    """Return names in the order of their codes, or None if the node returned no operations."""
    return None if operations is None else [operation_name(operation) for operation in sorted(operations)]


def operations_sheet(rows: Sequence[tuple[str, Collection[AclOperation] | None]]) -> Sheet:
    sheet = Sheet(columns=("resource", "you may"))
    for resource, operations in rows:
        names = operation_names(operations)
        sheet.add(resource, "unknown" if names is None else ", ".join(names) or "nothing")
    return sheet


def add_operations(
    answer: Answer, documents: Sequence[dict[str, object]], rows: Sequence[tuple[str, Collection[AclOperation] | None]]
) -> Answer:
    """Add authorized operations to ``answer``. ``documents`` and ``rows`` have the same order."""
    for document, (_, operations) in zip(documents, rows, strict=True):
        document["authorized_operations"] = operation_names(operations)
    if rows:
        answer.sheets = [*answer.sheets, operations_sheet(rows)]
    return answer


async def mine_answer(admin: AdminClient, topics: Sequence[str] | None, groups: Sequence[str] | None) -> Answer:
    """Return the caller's rights on the named topics and groups. None means all that the caller may describe."""
    # An empty set means that the caller lacks DESCRIBE on the cluster, so its rights on it are unknown.
    cluster = (await admin.describe_cluster(include_authorized_operations=True)).authorized_operations or None
    if topics is None:
        topics = [topic.name async for topic in admin.list_topics(include_internal=True)]
    if groups is None:
        groups = [group.group_id for group in (await admin.list_groups()).groups]
    by_topic: dict[str, Collection[AclOperation] | None] = {}
    by_group: dict[str, Collection[AclOperation] | None] = {}
    problems = []
    for names in in_steps(list(topics), _PER_STEP, "describing topics"):
        topic_results = await admin.describe_topics(names, include_authorized_operations=True)
        by_topic |= {topic.name: topic.authorized_operations for topic in topic_results.values.values()}
        problems += problems_of(topic_results.errors, right="DESCRIBE on Topic:{item}")
    for names in in_steps(list(groups), _PER_STEP, "describing groups"):
        group_results = await admin.describe_groups(names, include_authorized_operations=True)
        by_group |= {group.group_id: group.authorized_operations for group in group_results.values.values()}
        problems += problems_of(group_results.errors, right="DESCRIBE on Group:{item}")
    rows: list[tuple[str, Collection[AclOperation] | None]] = [("Cluster:kafka-cluster", cluster)]
    rows += [(f"Topic:{name}", by_topic[name]) for name in sorted(by_topic)]
    rows += [(f"Group:{name}", by_group[name]) for name in sorted(by_group)]
    document = {
        "cluster": operation_names(cluster),
        "topics": [{"topic": name, "operations": operation_names(by_topic[name])} for name in sorted(by_topic)],
        "groups": [{"group": name, "operations": operation_names(by_group[name])} for name in sorted(by_group)],
    }
    notes = []
    if cluster is None:
        notes.append("your rights on the cluster are unknown: reading them needs DESCRIBE on Cluster")
    return Answer(document, [operations_sheet(rows)], notes, problems)
