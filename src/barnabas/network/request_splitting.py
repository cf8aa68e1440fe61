"""Answers long requests in parts: they carry a list, and each item is answered independently.

The handler answers a few hundred items at a time, as if each part were a separate request, and the parts of the
response are joined. Other clients are served between two parts. A part that fails as a whole fails the request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.protocol.schema import Message

__all__ = ["ANSWERED_IN_PARTS", "PART_SIZE", "PartialAnswer", "join_parts", "parts_of"]

PART_SIZE = 200


class PartialAnswer(ABC):
    """The response to a part, of an API that encodes the items of its responses itself."""

    __slots__ = ()

    @abstractmethod
    def join(self, part: Any) -> None:
        """Add the items of ``part``, the response of the same kind to a later part of the request."""


class _Shape(NamedTuple):
    """The names of list fields: of items, and of partitions in an item."""

    items: str
    answers: str
    partitions: str | None = None
    answered_partitions: str | None = None


_SHAPES = {
    ApiKey.METADATA: _Shape("topics", "topics"),
    ApiKey.LIST_OFFSETS: _Shape("topics", "topics", "partitions", "partitions"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _Shape("topics", "topics", "partitions", "partitions"),
    ApiKey.OFFSET_COMMIT: _Shape("topics", "topics", "partitions", "partitions"),
    ApiKey.DESCRIBE_GROUPS: _Shape("groups", "groups"),
    ApiKey.FIND_COORDINATOR: _Shape("coordinator_keys", "coordinators"),
    ApiKey.DESCRIBE_CONFIGS: _Shape("resources", "results"),
    ApiKey.DELETE_GROUPS: _Shape("groups_names", "results"),
}
ANSWERED_IN_PARTS = frozenset(_SHAPES)


def parts_of(api_key: ApiKey, request: Message) -> list[Message]:
    """Yield the request in parts of ``PART_SIZE``; a short request is yielded unchanged."""
    shape = _SHAPES.get(api_key)
    items = None if shape is None else getattr(request, shape.items)
    if shape is None or not items:
        return [request]
    parts = []
    for chunk in _chunks(items, shape.partitions):
        part = copy(request)
        setattr(part, shape.items, chunk)
        parts.append(part)
    return parts


def _chunks(items: list[object], partitions: str | None) -> Iterator[list[object]]:
    if partitions is None:
        for start in range(0, len(items), PART_SIZE):
            yield items[start : start + PART_SIZE]
        return
    chunk: list[object] = []
    left = PART_SIZE
    for item in items:
        inner = getattr(item, partitions)
        for start in range(0, len(inner), PART_SIZE) or (0,):
            piece = item
            if len(inner) > PART_SIZE:
                piece = copy(item)
                setattr(piece, partitions, inner[start : start + PART_SIZE])
            chunk.append(piece)
            left -= 1 + len(getattr(piece, partitions))
            if left <= 0:
                yield chunk
                chunk, left = [], PART_SIZE
    if chunk:
        yield chunk


def join_parts(api_key: ApiKey, whole: object, part: object) -> None:
    """Add the response of the next part to the response so far."""
    if isinstance(whole, PartialAnswer):
        whole.join(part)
        return
    shape = _SHAPES[api_key]
    answers, more = getattr(whole, shape.answers), getattr(part, shape.answers)
    if shape.answered_partitions is not None and answers and more and _same_topic(answers[-1], more[0]):
        getattr(answers[-1], shape.answered_partitions).extend(getattr(more[0], shape.answered_partitions))
        more = more[1:]
    answers.extend(more)


def _same_topic(left: Any, right: Any) -> bool:
    if hasattr(left, "topic"):
        return bool(left.topic == right.topic)
    return bool(left.name == right.name and getattr(left, "topic_id", None) == getattr(right, "topic_id", None))
