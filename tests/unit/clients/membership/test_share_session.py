"""A share session counts its requests, and names what is new, forgotten or acknowledged."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.membership.acknowledgements import (
    AcknowledgeType,
    TopicIdPartition,
    acknowledged_ranges,
)
from barnabas.clients.membership.share_session import AcquireMode, FetchLimits, ShareSession
from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from barnabas.protocol.messages.share_fetch import ShareFetchRequest

A, B = Uuid.from_int(1 << 90), Uuid.from_int(1 << 91)
LIMITS = FetchLimits(7, 500, 1, 1000, AcquireMode.RECORD_LIMIT)
ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW


def named(request: ShareFetchRequest) -> set[TopicIdPartition]:
    return {
        TopicIdPartition(topic.topic_id, part.partition_index) for topic in request.topics for part in topic.partitions
    }


def forgotten(request: ShareFetchRequest) -> set[TopicIdPartition]:
    return {
        TopicIdPartition(topic.topic_id, part) for topic in request.forgotten_topics_data for part in topic.partitions
    }


def said(request: ShareAcknowledgeRequest) -> list[tuple[int, int, list[int]]]:
    return [
        (batch.first_offset, batch.last_offset, batch.acknowledge_types)
        for topic in request.topics
        for part in topic.partitions
        for batch in part.acknowledgement_batches
    ]


def test_the_first_request_names_all_partitions_and_later_ones_the_changes() -> None:
    session = ShareSession("g", "m")
    first = session.fetch({TopicIdPartition(A, 0), TopicIdPartition(B, 1)}, LIMITS)
    assert (first.group_id, first.member_id, first.share_session_epoch) == ("g", "m", 0)
    assert (first.max_records, first.batch_size, first.share_acquire_mode) == (7, 7, 1)
    assert named(first) == {TopicIdPartition(A, 0), TopicIdPartition(B, 1)}
    assert session.answered(0)
    second = session.fetch({TopicIdPartition(A, 0), TopicIdPartition(A, 2)}, LIMITS)
    assert second.share_session_epoch == 1
    assert named(second) == {TopicIdPartition(A, 2)}
    assert forgotten(second) == {TopicIdPartition(B, 1)}


def test_acknowledgements_are_sent_in_the_session() -> None:
    session = ShareSession("g", "m")
    session.fetch({TopicIdPartition(A, 0)}, LIMITS)
    session.answered(0)
    first = session.acknowledge({TopicIdPartition(A, 0): {3: ACCEPT, 4: ACCEPT, 6: RELEASE}})
    assert (first.share_session_epoch, first.is_renew_ack) == (1, False)
    assert said(first) == [(3, 4, [ACCEPT]), (6, 6, [RELEASE])]
    session.answered(0)
    second = session.acknowledge({TopicIdPartition(A, 0): {7: RENEW}})
    assert (second.share_session_epoch, second.is_renew_ack, said(second)) == (2, True, [(7, 7, [RENEW])])
    session.answered(0)
    last = session.close({})
    assert (last.share_session_epoch, last.is_renew_ack, last.topics) == (-1, False, [])


def test_a_lost_session_begins_again_with_all_partitions() -> None:
    session = ShareSession("g", "m")
    wanted = {TopicIdPartition(A, 0)}
    session.fetch(wanted, LIMITS)
    session.answered(0)
    for error in (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH):
        session.fetch(wanted, LIMITS)
        assert not session.answered(error)
        assert not session.is_open
        again = session.fetch(wanted, LIMITS)
        assert (again.share_session_epoch, named(again), forgotten(again)) == (0, wanted, set())
        session.answered(0)
        assert session.is_open


def test_another_error_keeps_the_session() -> None:
    session = ShareSession("g", "m")
    session.fetch({TopicIdPartition(A, 0)}, LIMITS)
    assert session.answered(ErrorCode.UNKNOWN_TOPIC_ID)
    assert session.acknowledge({}).share_session_epoch == 1


@given(st.dictionaries(st.integers(0, 40), st.sampled_from(AcknowledgeType)))
def test_ranges_say_exactly_what_was_said(types: dict[int, AcknowledgeType]) -> None:
    ranges = list(acknowledged_ranges(types))
    assert {offset: type_ for first, last, type_ in ranges for offset in range(first, last + 1)} == types
    assert ranges == sorted(ranges)
    # No two neighbours could be one.
    assert all(one[1] + 1 < other[0] or one[2] is not other[2] for one, other in pairwise(ranges))
