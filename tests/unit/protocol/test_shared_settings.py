"""DescribeConfigs responses encode a setting that many resources share once; the bytes equal those without sharing."""

import random

import pytest

from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from barnabas.protocol.schema import Message


def setting(draw: random.Random) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name="n" * draw.randrange(200),
        value=draw.choice([None, "v" * draw.randrange(300)]),
        read_only=draw.random() < 0.5,
        config_source=draw.randrange(9),
        synonyms=[DescribeConfigsSynonym(name="s", value=None, source=1)] * draw.randrange(3),
        config_type=2,
        documentation=draw.choice([None, "text"]),
    )


def answer(topics: int) -> DescribeConfigsResponse:
    draw = random.Random(topics)
    settings = [setting(draw) for _ in range(50)]
    return DescribeConfigsResponse(
        throttle_time_ms=draw.randrange(100),
        results=[
            DescribeConfigsResult(
                error_code=draw.randrange(3),
                error_message=draw.choice([None, "", "why"]),
                resource_type=2,
                resource_name=f"topic-{number}",
                configs=[draw.choice(settings) for _ in range(draw.choice([0, 5, 33, 130]))],
            )
            for number in range(topics)
        ],
    )


def encoded_as_any_other(response: Message, version: int) -> bytes:
    chunks: list[bytes] = []
    Message.write(response, version, chunks)
    return b"".join(chunks)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("topics", [0, 1, 2, 200])
def test_the_bytes_equal_those_of_any_other_response(topics: int, version: int) -> None:
    response = answer(topics)
    assert response.encode(version) == encoded_as_any_other(response, version)


def test_unknown_tags_are_kept() -> None:
    response = answer(3)
    response.results[1].unknown_tags = [(7, b"later")]
    assert response.encode(4) == encoded_as_any_other(response, 4)
    assert DescribeConfigsResponse.decode(response.encode(4), 4).results[1].unknown_tags == [(7, b"later")]
