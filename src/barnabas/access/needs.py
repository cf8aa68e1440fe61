"""The least rights of a client: what it needs, for each resource that it uses, and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.access.acl_text import Resource
from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType

__all__ = [
    "Need",
    "consumer_needs",
    "example_of",
    "share_consumer_needs",
    "streams_needs",
    "transactional_producer_needs",
]


class Need(NamedTuple):
    """A right that a client cannot do without; with ``is_prefixed``, on all resources that begin with the name."""

    resource: Resource
    operation: AclOperation
    reason: str
    is_prefixed: bool = False


def example_of(need: Need) -> Resource:
    """Return a resource on which the client needs the right: one of many, if their names only begin alike."""
    resource = need.resource
    return Resource(resource.type, f"{resource.name}example") if need.is_prefixed else resource


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


def consumer_needs(group: str, *, topics: Iterable[str] = (), topic_prefixes: Iterable[str] = ()) -> list[Need]:
    """Return the rights of a member of a consumer group, of either protocol (KIP-848).

    Read implies Describe, which a subscription needs. Of the topics that match a regular expression, the coordinator
    assigns those that the member may describe, and passes over the others without an error.
    """
    needs = [Need(Resource(ResourceType.GROUP, group), AclOperation.READ, "joins the group, and commits how far it is")]
    needs += [
        Need(Resource(ResourceType.TOPIC, topic), AclOperation.READ, "subscribes to the topic, and reads records")
        for topic in dict.fromkeys(topics)
    ]
    reason = "matches topics with a regular expression, and reads records"
    needs += [
        Need(Resource(ResourceType.TOPIC, prefix), AclOperation.READ, reason, is_prefixed=True)
        for prefix in dict.fromkeys(topic_prefixes)
    ]
    return needs


def share_consumer_needs(group: str, *, topics: Iterable[str]) -> list[Need]:
    """Return the rights of a member of a share group (KIP-932), as of ``barnabas queue``."""
    needs = [Need(Resource(ResourceType.GROUP, group), AclOperation.READ, "joins the group, and opens share sessions")]
    needs += [
        Need(Resource(ResourceType.TOPIC, topic), AclOperation.READ, "acquires records, and acknowledges them")
        for topic in dict.fromkeys(topics)
    ]
    return needs


def streams_needs(
    application_id: str, *, read_topics: Iterable[str], topics: Iterable[str] = (), is_exactly_once: bool = False
) -> list[Need]:
    """Return the rights of a Kafka Streams application with the streams protocol (KIP-1071).

    It reads ``read_topics`` and writes to ``topics``. The broker creates its internal topics in its name, which begin
    with the application id.
    """
    internal = Resource(ResourceType.TOPIC, f"{application_id}-")
    needs = [
        Need(
            Resource(ResourceType.GROUP, application_id),
            AclOperation.READ,
            "joins the group, and commits how far it is",
        )
    ]
    needs += [
        Need(Resource(ResourceType.TOPIC, topic), AclOperation.READ, "reads records")
        for topic in dict.fromkeys(read_topics)
    ]
    needs += [
        Need(Resource(ResourceType.TOPIC, topic), AclOperation.WRITE, "writes records")
        for topic in dict.fromkeys(topics)
    ]
    needs += [
        Need(internal, operation, reason, is_prefixed=True)
        for operation, reason in (
            (AclOperation.CREATE, "creates internal topics, through the coordinator"),
            (AclOperation.READ, "restores states, and reads what it has repartitioned"),
            (AclOperation.WRITE, "writes changes of states, and repartitions records"),
            (AclOperation.DELETE, "deletes repartitioned records that it has read"),
        )
    ]
    if is_exactly_once:
        transactions = Resource(ResourceType.TRANSACTIONAL_ID, f"{application_id}-")
        reason = "begins, commits and aborts transactions"
        needs.append(Need(transactions, AclOperation.WRITE, reason, is_prefixed=True))
    return needs
