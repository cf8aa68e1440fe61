"""Topics that Metadata creates on demand are created as the client that named them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.security.request_context import RequestContext
from tests.unit.broker.apis.test_denials import World

NAMES = ["__consumer_offsets", "__transaction_state", "__share_group_state", "orders"]


def created_by(*rights: str) -> tuple[list[tuple[str, RequestContext | None]], dict[str, int]]:
    world = World(*rights)
    created: list[tuple[str, RequestContext | None]] = []

    def create(names: list[str], context: RequestContext | None) -> None:
        created.extend((name, context) for name in names)

    creation: Any = SimpleNamespace(create=create, refusal_of=lambda name: None)
    world.broker.topic_creation = creation
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in NAMES])
    answer = world.ask(request, 12)
    return created, {topic.name: topic.error_code for topic in answer.topics}


def test_internal_topics_are_created_as_the_client_like_other_topics() -> None:
    created, codes = created_by("TOPIC:DESCRIBE", "TOPIC:CREATE")
    assert [name for name, context in created if context is not None] == NAMES
    assert set(codes.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_client_without_create_creates_no_internal_topic_either() -> None:
    created, codes = created_by("TOPIC:DESCRIBE")
    assert created == []
    assert codes == dict.fromkeys(NAMES, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
