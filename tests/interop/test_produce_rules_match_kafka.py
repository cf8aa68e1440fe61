"""Our broker judges produced batches as Kafka 4.3.1 does, and stores the same bytes of those that it accepts. Where it
is stricter or reports more precisely, the difference is listed here with its reason.
"""

from __future__ import annotations

import re
import time
from typing import Any, NamedTuple

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import iter_batches
from barnabas.testing import Node
from tests.interop.produce_cases import CASES, TOPICS, ProduceCase
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode

pytestmark = pytest.mark.interop

OURS_INSTEAD = {
    # In Kafka an unhandled exception escapes; the batch is invalid either way.
    "compression 5": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    "compression 7": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    "none: long varint": ErrorCode.INVALID_RECORD,
    "offsets twice": ErrorCode.INVALID_RECORD,
    "offsets with a gap": ErrorCode.INVALID_RECORD,
    "not compressed at all": ErrorCode.INVALID_RECORD,
    "cut": ErrorCode.INVALID_RECORD,
    # Kafka skips the fields of compressed records and accepts these, although no consumer can ever read them.
    "record too short": ErrorCode.INVALID_RECORD,
    "record too long": ErrorCode.INVALID_RECORD,
    "negative record length": ErrorCode.INVALID_RECORD,
}
KEPT_OTHERWISE = {"none: offsets twice", "none: offsets with a gap"}
"""Kafka keeps the producer's wrong offsets, so two records share one; ours are assigned again."""


class Verdict(NamedTuple):
    error: ErrorCode
    record_errors: list[tuple[int, str]]
    kept: dict[str, Any] | None


def test_both_nodes_reach_the_same_verdict_on_every_batch(real_kafka: KafkaNode, barnabas_node: Node) -> None:
    theirs = judged_by(RawClient(real_kafka.port, timeout_s=5))
    ours = judged_by(RawClient(barnabas_node.port, timeout_s=5))
    differences = []
    for case in CASES:
        expected, seen = theirs[case], ours[case]
        if expected.error in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE):
            instead = OURS_INSTEAD.get(case.name, OURS_INSTEAD.get(case.name.partition(": ")[2]))
            if instead is not None and seen.error == instead:
                continue
        if case.name in KEPT_OTHERWISE:
            expected, seen = expected._replace(kept=None), seen._replace(kept=None)
        if expected != seen:
            differences.append(f"{case.topic}, {case.name}\n    kafka: {expected}\n     ours: {seen}")
    assert not differences, "\n".join(differences)


def judged_by(client: RawClient) -> dict[ProduceCase, Verdict]:
    prefix = f"produce-rules-{time.time_ns()}-"
    create_topics(client, prefix)
    verdicts = {case: verdict(client, prefix, case) for case in CASES}
    client.close()
    return verdicts


def create_topics(client: RawClient, prefix: str) -> None:
    topics = [
        CreatableTopic(
            name=prefix + name,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
        )
        for name, settings in TOPICS.items()
    ]
    response = client.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
    assert {topic.error_code for topic in response.topics} == {0}
    for name in TOPICS:
        wait_for_leader(client, prefix + name)


def wait_for_leader(client: RawClient, topic: str) -> None:
    for _ in range(100):
        if fetch(client, topic, 0, max_wait_ms=0).error_code == ErrorCode.NONE:
            return
        time.sleep(0.1)
    raise AssertionError(f"{topic} has no leader")


def verdict(client: RawClient, prefix: str, case: ProduceCase) -> Verdict:
    answer = produce(client, prefix + case.topic, case.records)
    error = ErrorCode(answer.error_code)
    if error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return Verdict(error, [], None)
    record_errors = [
        (item.batch_index, without_times(item.batch_index_error_message.replace(prefix, "")))
        for item in answer.record_errors
    ]
    kept = None if error else kept_batch(client, prefix + case.topic, answer.base_offset, case)
    return Verdict(error, record_errors, kept)


def produce(client: RawClient, topic: str, records: bytes | None) -> Any:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    response = client.call(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[data]), 12)
    return response.responses[0].partition_responses[0]


def fetch(client: RawClient, topic: str, offset: int, *, max_wait_ms: int = 1000) -> Any:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1_000_000, topics=topics)
    return client.call(request, 12).responses[0].partitions[0]


def kept_batch(client: RawClient, topic: str, offset: int, case: ProduceCase) -> dict[str, Any]:
    """Return the log content with offsets relative to the assigned ones, without time-dependent fields. Batches that
    are not recompressed are identical to the byte.
    """
    batch = next(batch for batch in iter_batches(fetch(client, topic, offset).records) if batch.last_offset >= offset)
    batch.ensure_valid()
    try:
        records = list(batch.records())
    except DecodeError:
        return {"unreadable": True}
    compression = TOPICS[case.topic].get("compression.type", "producer")
    is_append_time = case.topic.startswith("append-time")
    return {
        "attributes": batch.attributes,
        "base_offset": batch.base_offset - offset,
        "last_offset": batch.last_offset - offset,
        "count": batch.count,
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": None if is_append_time else batch.max_timestamp,
        "producer": (batch.producer_id, batch.producer_epoch, batch.base_sequence),
        "records": [
            record._replace(offset=record.offset - offset, timestamp=0 if is_append_time else record.timestamp)
            for record in records
        ],
        "bytes": batch.tobytes()[16:].hex() if compression == "producer" and not is_append_time else None,
    }


def without_times(text: str) -> str:
    """The bounds of a timestamp and the time of an append depend on the moment."""
    return re.sub(r"within \[-?\d+, \d+\]", "within [..]", text)
