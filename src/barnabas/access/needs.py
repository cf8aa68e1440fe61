"""The least rights of a client: what it needs, for each resource that it uses, and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.access.acl_text import Resource
from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType

__all__ = ["Need", "transactional_producer_needs"]


class Need(NamedTuple):
    """A right that a client cannot do without."""

    resource: Resource
    operation: AclOperation
    reason: str


def transactional_producer_needs(
    transactional_id: str, *, topics: Iterable[str], group: str | None = None, read_topics: Iterable[str] = ()
) -> list[Need]:
    """Return the rights of a producer that writes to ``topics`` in transactions (KIP-98).

    With ``group`` it also commits the offsets of this group in ``read_topics``, as an application does that reads,
    processes and writes exactly once. Write implies Describe, so these rights suffice.
    """
    needs = [
        Need(
            Resource(ResourceType.TRANSACTIONAL_ID, transactional_id),
            AclOperation.WRITE,
            "begins, commits and aborts transactions",
        )
    ]
    needs += [
        Need(Resource(ResourceType.TOPIC, topic), AclOperation.WRITE, "writes records")
        for topic in dict.fromkeys(topics)
    ]
    if group is not None:
        reason = "joins the group, and commits its offsets in the transaction"
        needs.append(Need(Resource(ResourceType.GROUP, group), AclOperation.READ, reason))
    needs += [
        Need(Resource(ResourceType.TOPIC, topic), AclOperation.READ, "reads records, and commits how far")
        for topic in dict.fromkeys(read_topics)
    ]
    return needs
