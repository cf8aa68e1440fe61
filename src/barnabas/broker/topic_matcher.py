"""Matches topics with the regular expressions of a consumer group's members (KIP-848).

The member whose request starts it must be allowed to describe a topic, or the topic does not match. Many topics are
matched in slices, between other work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.broker.transactional_id_pattern import compile_pattern
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType

if TYPE_CHECKING:
    from barnabas.broker.group_service import GroupService
    from barnabas.network.api_handler import Access

__all__ = ["TopicMatcher"]

log = logging.getLogger(__name__)

_TOPICS_A_SLICE = 500


class TopicMatcher:
    """It is the ``MatchTopics`` of one request."""

    __slots__ = ("_access", "_groups")

    def __init__(self, groups: GroupService, access: Access) -> None:
        self._groups = groups
        self._access = access

    def __call__(self, group_id: str, patterns: frozenset[str]) -> None:
        compiled = {pattern: _compiled(pattern) for pattern in patterns}
        self._groups.start_task(self._match(group_id, compiled))

    async def _match(self, group_id: str, compiled: Mapping[str, Callable[[str], bool]]) -> None:
        groups = self._groups
        image = groups.coordinator.view.image
        found: dict[str, list[str]] = {pattern: [] for pattern in compiled}
        result: dict[str, frozenset[str]] | None = None
        try:
            names = list(image.topics.by_name)
            for first in range(0, len(names), _TOPICS_A_SLICE):
                for pattern, matches in compiled.items():
                    found[pattern] += filter(matches, names[first : first + _TOPICS_A_SLICE])
                await asyncio.sleep(0)
            every = dict.fromkeys(name for matched in found.values() for name in matched)
            allowed = self._access.allowed(
                ResourceType.TOPIC, AclOperation.DESCRIBE, every, log_if_denied=False, log_if_allowed=False
            )
            result = {pattern: frozenset(allowed.intersection(matched)) for pattern, matched in found.items()}
        finally:
            if result is None:
                log.warning("The regular expressions of group %s could not be matched with topics", group_id)
            groups.coordinator.regular_expressions_matched(group_id, result, image.offset, groups.now_ms())
            groups.schedule()


def _compiled(pattern: str) -> Callable[[str], bool]:
    try:
        return compile_pattern(pattern)
    except ApiException as error:
        cause = error.__cause__
        reason = "it is not valid in RE2" if cause is None else str(cause.args[0] if cause.args else cause)
        raise ApiException(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}.",
        ) from error
