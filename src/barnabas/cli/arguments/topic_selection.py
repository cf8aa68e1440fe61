"""Select the topics that a command line names, and report those that do not exist."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.output.advice import UnknownName, nearest, problems_of
from barnabas.cli.output.answer import Problem
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_name import topic_name_problem

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, Results, TopicListing
    from barnabas.clients.admin.errors import AdminError

__all__ = [
    "merged",
    "parse_assignment",
    "parse_partitions",
    "require_topics",
    "select_topics",
    "topic_names",
    "topic_problems",
]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def require_topics(topics: Sequence[str] | None) -> list[str]:
    """Return the topic names without duplicates. Raise UsageError without a name, or for an invalid name."""
    if not topics:
        raise UsageError("no topic given: name it as an argument or with --topic")
    for name in topics:
        problem = topic_name_problem(name)
        if problem is not None:
            raise UsageError(f"{name}: {problem}")
    return list(dict.fromkeys(topics))


def parse_assignment(text: str) -> list[list[int]]:
    """Parse ``1:2,2:3``, the brokers of each partition. Raise UsageError."""
    try:
        return [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--replica-assignment {text}: write the brokers of each partition as in 1:2,2:3 (for two partitions)"
        ) from None


def parse_partitions(text: str) -> list[int]:
    """Parse ``0,2,5``. Raise UsageError."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{text}: write partitions as numbers separated by commas, for example 0,2") from None


async def topic_names(admin: AdminClient) -> list[str]:
    return [topic.name async for topic in admin.list_topics(include_internal=True)]


async def select_topics(
    admin: AdminClient, wanted: Sequence[str] | None, *, include_internal: bool = True
) -> list[TopicListing]:
    """Return the topics with these names or matching these expressions; without names, all topics.

    Raise UsageError for an invalid expression, UnknownName for a missing topic.
    """
    known = [topic async for topic in admin.list_topics(include_internal=True)]
    if not wanted:
        return [topic for topic in known if include_internal or not topic.is_internal]
    by_name = {topic.name: topic for topic in known}
    chosen: dict[str, TopicListing] = {}
    for text in wanted:
        if topic_name_problem(text) is None and text in by_name:
            chosen[text] = by_name[text]
            continue
        matching = _matching(text, known)
        if not matching and topic_name_problem(text) is None:
            raise UnknownName(text, "no topic of this name exists, or you may not see it", nearest(text, by_name))
        chosen |= {topic.name: topic for topic in matching if include_internal or not topic.is_internal}
    return list(chosen.values())


async def topic_problems(
    admin: AdminClient, errors: Mapping[Any, AdminError], right: str, *, if_exists: bool = False
) -> tuple[list[Problem], list[str]]:
    """Return problems, with the nearest names for unknown topics, and notes about skipped topics."""
    missing = [item for item, error in errors.items() if error.code in _UNKNOWN]
    if if_exists:
        left = {item: error for item, error in errors.items() if item not in missing}
        return problems_of(left, right=right), [f"{item} does not exist" for item in missing]
    others = {item: error for item, error in errors.items() if item not in missing}
    unknown = {item: error for item, error in errors.items() if item in missing}
    names = await topic_names(admin) if unknown else []
    return [*problems_of(others, right=right), *problems_of(unknown, right=right, names=names)], []


def merged(results: Iterable[Results[K, V]]) -> Results[K, V]:
    from barnabas.clients.admin.results import Results

    parts = list(results)
    return Results(
        {key: value for part in parts for key, value in part.values.items()},
        {key: error for part in parts for key, error in part.errors.items()},
    )


def _matching(text: str, known: Sequence[TopicListing]) -> list[TopicListing]:
    try:
        pattern = re.compile(text.replace(",", "|"))
    except re.error as error:
        raise UsageError(f"{text} is neither a topic name nor a valid regular expression: {error}") from error
    return [topic for topic in known if pattern.fullmatch(topic.name)]
