"""Requests for quotas, leader elections, reassignments and the quorum, good and bad, for a fresh cluster of one broker.

The broker has id 1. They are sent one after the other: later ones depend on the results of earlier ones.
"""

from __future__ import annotations

from typing import Any

from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.peers.admin_requests import Case, create, new_topic

__all__ = ["mutations"]

Pairs = list[tuple[str, str | None]]
Change = tuple[str, float | None]
USER: Pairs = [("user", "alice")]
CLIENT: Pairs = [("client-id", "app")]
IP: Pairs = [("ip", "127.0.0.1")]
PREFERRED, UNCLEAN = 0, 1


def quota(entity: Pairs, *changes: Change) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes],
    )


def quotas(*entries: AlterClientQuotasRequestEntryData, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def _quota_cases() -> list[Case]:
    def single(entity: Pairs, *changes: Change) -> Any:
        return quotas(quota(entity, *changes))

    rate: Change = ("producer_byte_rate", 1000.0)
    cases: list[tuple[str, Any]] = [
        ("nothing", quotas()),
        ("user", single(USER, rate)),
        ("user again", single(USER, rate)),
        ("user default", single([("user", None)], rate)),
        ("client", single(CLIENT, ("consumer_byte_rate", 5.0))),
        ("client default", single([("client-id", None)], ("request_percentage", 12.5))),
        ("user and client", single([*USER, *CLIENT], ("controller_mutation_rate", 0.5))),
        ("client and user", single([*CLIENT, *USER], ("controller_mutation_rate", 1.5))),
        ("both defaults", single([("user", None), ("client-id", None)], rate)),
        ("user and default client", single([*USER, ("client-id", None)], rate)),
        ("ip", single(IP, ("connection_creation_rate", 10.0))),
        ("ip default", single([("ip", None)], ("connection_creation_rate", 10.0))),
        ("ip v6", single([("ip", "::1")], ("connection_creation_rate", 10.0))),
        ("ip by name", single([("ip", "localhost")], ("connection_creation_rate", 10.0))),
        ("ip that is none", single([("ip", "no.such.host.invalid")], ("connection_creation_rate", 10.0))),
        ("ip with spaces", single([("ip", "not an ip")], ("connection_creation_rate", 10.0))),
        ("ip empty", single([("ip", "")], ("connection_creation_rate", 10.0))),
        ("ip and user", single([*IP, *USER], ("connection_creation_rate", 10.0))),
        ("ip and client", single([*CLIENT, *IP], ("connection_creation_rate", 10.0))),
        ("all three", single([*CLIENT, *IP, *USER], rate)),
        ("no entity", single([], rate)),
        ("empty user", single([("user", "")], rate)),
        ("empty client", single([("client-id", "")], rate)),
        ("unknown type", single([("group", "x")], rate)),
        ("empty type", single([("", "x")], rate)),
        ("unknown type and user", single([("group", "x"), *USER], rate)),
        ("user twice", single([*USER, ("user", "bob")], rate)),
        ("same user twice", single([*USER, *USER], rate)),
        ("strange names", single([("user", "a:b?c/d e*ü"), ("client-id", "x y/%&")], rate)),
        ("long name", single([("user", "u" * 2000)], rate)),
        ("unknown key", single(USER, ("nonsense", 1.0))),
        ("empty key", single(USER, ("", 1.0))),
        ("remove unknown key", single(USER, ("nonsense", None))),
        ("ip key for user", single(USER, ("connection_creation_rate", 1.0))),
        ("user key for ip", single(IP, rate)),
        ("zero", single(USER, ("producer_byte_rate", 0.0))),
        ("negative", single(USER, ("producer_byte_rate", -1.0))),
        ("fraction", single(USER, ("producer_byte_rate", 1.5))),
        ("fraction of almost nothing", single(USER, ("producer_byte_rate", 7.0000001))),
        ("half a byte", single(USER, ("producer_byte_rate", 0.5))),
        ("too much", single(USER, ("producer_byte_rate", 1e19))),
        ("2^63", single(USER, ("producer_byte_rate", 9.223372036854775807e18))),
        ("infinite", single(USER, ("producer_byte_rate", float("inf")))),
        ("not a number", single(USER, ("producer_byte_rate", float("nan")))),
        ("infinite percentage", single(USER, ("request_percentage", float("inf")))),
        ("percentage not a number", single(USER, ("request_percentage", float("nan")))),
        ("percentage zero", single(USER, ("request_percentage", 0.0))),
        ("percentage small", single(USER, ("request_percentage", 0.001))),
        ("percentage large", single(USER, ("request_percentage", 1000.0))),
        ("mutation rate negative", single(USER, ("controller_mutation_rate", -0.1))),
        ("connections fraction", single(IP, ("connection_creation_rate", 1.5))),
        ("connections too many", single(IP, ("connection_creation_rate", 3e9))),
        ("connections 2^31-1", single(IP, ("connection_creation_rate", 2147483647.0))),
        ("connections zero", single(IP, ("connection_creation_rate", 0.0))),
        ("remove", single(USER, ("producer_byte_rate", None))),
        ("remove again", single(USER, ("producer_byte_rate", None))),
        ("no ops", single(USER)),
        ("key twice", single(USER, rate, ("producer_byte_rate", 2.0))),
        ("set and remove", single(USER, rate, ("producer_byte_rate", None))),
        ("two keys", single(USER, rate, ("consumer_byte_rate", 2.0))),
        ("one of two keys is bad", single([("user", "bob")], rate, ("nonsense", 2.0))),
        ("one of two entries is bad", quotas(quota([("user", "carl")], rate), quota([("user", "")], rate))),
        (
            "entity twice",
            quotas(quota([("user", "dora")], rate), quota([("user", "dora")], ("consumer_byte_rate", 1.0))),
        ),
        ("scram", single(USER, ("SCRAM-SHA-256", 1.0))),
    ]
    validated = [
        ("validate", quotas(quota([("user", "eve")], rate), validate_only=True)),
        ("validate a bad one", quotas(quota([("user", "eve")], ("nonsense", 1.0)), validate_only=True)),
    ]
    return [(f"quota: {name}", request, 1) for name, request in [*cases, *validated]] + [
        ("quota: old version", single([("user", "frank")], rate), 0)
    ]


def elect(kind: int, *topics: tuple[str, list[int]]) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[TopicPartitions(topic=name, partitions=ids) for name, ids in topics],
        timeout_ms=10_000,
    )


def _election_cases() -> list[Case]:
    everything = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout_ms=10_000)
    all_unclean = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=None, timeout_ms=10_000)
    cases: list[tuple[str, Any, int]] = [
        ("preferred", elect(PREFERRED, ("led", [0])), 2),
        ("unclean", elect(UNCLEAN, ("led", [0])), 2),
        ("two of a topic", elect(PREFERRED, ("led", [0, 1])), 2),
        ("unknown partition", elect(PREFERRED, ("led", [7])), 2),
        ("negative partition", elect(PREFERRED, ("led", [-1])), 2),
        ("unknown topic", elect(PREFERRED, ("nope", [0])), 2),
        ("unknown topic, unclean", elect(UNCLEAN, ("nope", [0])), 2),
        ("partition twice", elect(PREFERRED, ("led", [0, 0])), 2),
        ("topic twice", elect(PREFERRED, ("led", [0]), ("led", [1])), 2),
        ("no partitions", elect(PREFERRED, ("led", [])), 2),
        ("no topics", elect(PREFERRED), 2),
        ("all", everything, 2),
        ("all, unclean", all_unclean, 2),
        ("unknown kind", elect(7, ("led", [0])), 2),
        ("negative kind", elect(-1, ("led", [0])), 2),
        ("version 0", elect(PREFERRED, ("led", [0]), ("nope", [1])), 0),
        ("version 1", elect(PREFERRED, ("led", [0]), ("nope", [1])), 1),
    ]
    return [(f"elect: {name}", request, version) for name, request, version in cases]


def reassign(*topics: tuple[str, list[tuple[int, list[int] | None]]], **fields: Any) -> Any:
    return AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=index, replicas=ids) for index, ids in partitions],
            )
            for name, partitions in topics
        ],
        timeout_ms=10_000,
        **fields,
    )


def ongoing(*topics: tuple[str, list[int]]) -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest(
        topics=[ListPartitionReassignmentsTopics(name=name, partition_indexes=ids) for name, ids in topics],
        timeout_ms=10_000,
    )


def _reassignment_cases() -> list[Case]:
    everything = ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000)
    fixed = {"allow_replication_factor_change": False}
    cases: list[tuple[str, Any, int]] = [
        ("where it is", reassign(("led", [(0, [1])])), 1),
        ("version 0", reassign(("led", [(0, [1])])), 0),
        ("unknown broker", reassign(("led", [(0, [9])])), 1),
        ("one more, unknown", reassign(("led", [(0, [1, 9])])), 1),
        ("factor fixed", reassign(("led", [(0, [1, 9])]), **fixed), 1),
        ("factor fixed, where it is", reassign(("led", [(0, [1])]), **fixed), 1),
        ("broker twice", reassign(("led", [(0, [1, 1])])), 1),
        ("negative broker", reassign(("led", [(0, [-1])])), 1),
        ("nowhere", reassign(("led", [(0, [])])), 1),
        ("nowhere, factor fixed", reassign(("led", [(0, [])]), **fixed), 1),
        ("cancel what isn't", reassign(("led", [(0, None)])), 1),
        ("unknown partition", reassign(("led", [(7, [1])])), 1),
        ("unknown topic", reassign(("nope", [(0, [1])])), 1),
        ("cancel on an unknown topic", reassign(("nope", [(0, None)])), 1),
        ("unknown topic and broker", reassign(("nope", [(0, [9])])), 1),
        ("partition twice", reassign(("led", [(0, [1]), (0, [9])])), 1),
        ("topic twice", reassign(("led", [(0, [1])]), ("led", [(1, [9])])), 1),
        ("good and bad", reassign(("led", [(0, [1]), (1, [9])])), 1),
        ("no topics", reassign(), 1),
        ("no partitions", reassign(("led", [])), 1),
        ("list all", everything, 0),
        ("list one", ongoing(("led", [0])), 0),
        ("list unknown", ongoing(("nope", [0]), ("led", [7])), 0),
        ("list none", ongoing(), 0),
    ]
    return [(f"reassign: {name}", request, version) for name, request, version in cases]


def _quorum_cases() -> list[Case]:
    def quorum(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
        return DescribeQuorumRequest(
            topics=[
                DescribeQuorumRequestTopicData(
                    topic_name=name,
                    partitions=[DescribeQuorumRequestPartitionData(partition_index=index) for index in ids],
                )
                for name, ids in topics
            ]
        )

    log = "__cluster_metadata"
    cases: list[tuple[str, Any, int]] = [
        ("of the log", quorum((log, [0])), 2),
        ("version 0", quorum((log, [0])), 0),
        ("version 1", quorum((log, [0])), 1),
        ("another topic", quorum(("led", [0])), 2),
        ("another partition", quorum((log, [1])), 2),
        ("two partitions", quorum((log, [0, 1])), 2),
        ("two topics", quorum((log, [0]), ("led", [0])), 2),
        ("no topics", quorum(), 2),
        ("no partitions", quorum((log, [])), 2),
        ("another topic, version 0", quorum(("led", [0])), 0),
    ]
    return [(f"quorum: {name}", request, version) for name, request, version in cases]


def mutations() -> list[Case]:
    return [
        ("create", create(new_topic("led", 2)), 7),
        *_quota_cases(),
        *_election_cases(),
        *_reassignment_cases(),
        *_quorum_cases(),
    ]
