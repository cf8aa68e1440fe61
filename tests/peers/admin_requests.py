"""Admin requests, good and bad, for a cluster of one broker (id 1) that has just been formatted.

They are sent one after the other: later ones depend on the results of earlier ones.
"""

from __future__ import annotations

from typing import Any

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_configs import AlterableConfig as LegacyConfig
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsResource as LegacyResource
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

__all__ = ["requests_for_broker", "requests_for_controller"]

Case = tuple[str, Any, int]
"""A name, a request and the version to send it in."""

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def new_topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignments: dict[int, list[int]] | list[tuple[int, list[int]]] | None = None,
    configs: list[tuple[str, str | None]] | None = None,
) -> CreatableTopic:
    pairs = assignments.items() if isinstance(assignments, dict) else assignments or []
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in pairs],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs or []],
    )


def create(*topics: CreatableTopic, **fields: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), **fields)


def grow(*topics: tuple[str, int, list[list[int]] | None], validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None if ids is None else [CreatePartitionsAssignment(broker_ids=i) for i in ids],
            )
            for name, count, ids in topics
        ],
        timeout_ms=10_000,
        validate_only=validate_only,
    )


def alter(*resources: tuple[Any, ...], validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    """Each resource: type, name, then (key, operation, value)."""
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes],
            )
            for kind, name, *changes in resources
        ],
        validate_only=validate_only,
    )


def replace(*resources: tuple[Any, ...]) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=[
            LegacyResource(
                resource_type=kind,
                resource_name=name,
                configs=[LegacyConfig(name=key, value=value) for key, value in wanted],
            )
            for kind, name, *wanted in resources
        ]
    )


def delete(*states: DeleteTopicState) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=list(states), timeout_ms=10_000)


def named(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name)


def update(*features: tuple[str, int, int], validate_only: bool = False) -> UpdateFeaturesRequest:
    keys = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=t) for name, level, t in features]
    return UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)


def _create_cases() -> list[Case]:
    def manual(name: str, *ids: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> CreatableTopic:
        return new_topic(name, partitions, factor, assignments=list(ids))

    def configured(name: str, *configs: tuple[str, str | None]) -> CreatableTopic:
        return new_topic(name, configs=list(configs))

    return [
        ("create", create(new_topic("ok")), 7),
        ("create again", create(new_topic("ok")), 7),
        ("create again, old version", create(new_topic("ok")), 4),
        ("empty name", create(new_topic("")), 7),
        ("one dot", create(new_topic(".")), 7),
        ("two dots", create(new_topic("..")), 7),
        ("long name", create(new_topic("a" * 250)), 7),
        ("space in name", create(new_topic("bad name")), 7),
        ("umlaut in name", create(new_topic("bäd")), 7),
        ("name with dot", create(new_topic("col.lide")), 7),
        ("colliding name", create(new_topic("col_lide")), 7),
        ("collision inside a request", create(new_topic("two.a"), new_topic("two_a")), 7),
        ("name twice", create(new_topic("dup"), new_topic("dup"), new_topic("x1")), 7),
        ("the metadata topic", create(new_topic("__cluster_metadata"), new_topic("x2")), 7),
        ("no partitions", create(new_topic("np0", 0)), 7),
        ("negative partitions", create(new_topic("np-2", -2)), 7),
        ("factor 0", create(new_topic("rf0", 1, 0)), 7),
        ("factor -2", create(new_topic("rf-2", 1, -2)), 7),
        ("factor 5", create(new_topic("rf5", 1, 5)), 7),
        ("defaults", create(new_topic("defaults", -1, -1)), 7),
        ("manual", create(manual("man1", (0, [1]))), 7),
        ("manual with count", create(manual("man2", (0, [1]), partitions=1)), 7),
        ("manual with factor", create(manual("man3", (0, [1]), factor=1)), 7),
        ("manual from 1", create(manual("man4", (1, [1]))), 7),
        ("manual partition twice", create(manual("man5", (0, [1]), (0, [1]))), 7),
        ("manual unknown broker", create(manual("man6", (0, [9]))), 7),
        ("manual broker twice", create(manual("man7", (0, [1, 1]))), 7),
        ("manual without brokers", create(manual("man8", (0, []))), 7),
        ("manual uneven", create(manual("man9", (0, [1]), (1, [1, 2]))), 7),
        (
            "configs",
            create(configured("cfg1", ("retention.ms", "1000"), ("cleanup.policy", "compact,delete"))),
            7,
        ),
        ("unknown config", create(configured("cfg2", ("nonsense", "1"))), 7),
        ("bad config value", create(configured("cfg3", ("retention.ms", "abc"))), 7),
        ("null config", create(configured("cfg4", ("retention.ms", None))), 7),
        ("config twice", create(configured("cfg5", ("retention.ms", "1"), ("retention.ms", "2"))), 7),
        ("bad policy", create(configured("cfg6", ("cleanup.policy", "foo"))), 7),
        (
            "lags crossed",
            create(configured("cfg7", ("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5"))),
            7,
        ),
        ("remote storage", create(configured("cfg8", ("remote.storage.enable", "true"))), 7),
        ("spaces around a value", create(configured("cfg9", ("retention.ms", "  77  "))), 7),
        ("value out of range", create(configured("cfg10", ("segment.bytes", "5"))), 7),
        ("two null configs", create(configured("cfg11", ("a", None), ("b", None))), 7),
        ("validate only", create(new_topic("vo1"), validate_only=True), 7),
        ("validate only again", create(new_topic("vo1"), validate_only=True), 7),
        (
            "mixed",
            create(new_topic("multi1"), new_topic("bad name"), new_topic("ok"), new_topic("multi2", 2, 1)),
            7,
        ),
        ("too many partitions", create(new_topic("big", 10_001)), 7),
        ("too many records", create(*[new_topic(f"many{i}") for i in range(5_001)]), 7),
        ("no topics", create(), 7),
    ]


def _grow_cases() -> list[Case]:
    return [
        ("grow", grow(("ok", 3, None)), 3),
        ("grow to the same", grow(("ok", 3, None)), 3),
        ("grow to less", grow(("ok", 2, None)), 3),
        ("grow to 0", grow(("ok", 0, None)), 3),
        ("grow to -1", grow(("ok", -1, None)), 3),
        ("grow an unknown topic", grow(("nope", 3, None)), 3),
        ("grow twice", grow(("ok", 4, None), ("ok", 5, None)), 3),
        ("grow with too few assignments", grow(("ok", 5, [[1]])), 3),
        ("grow on an unknown broker", grow(("ok", 4, [[9]])), 3),
        ("grow on a broker twice", grow(("ok", 4, [[1, 1]])), 3),
        ("grow without brokers", grow(("ok", 4, [[]])), 3),
        ("grow with another factor", grow(("ok", 4, [[1, 2]])), 3),
        ("grow with no assignments", grow(("ok", 4, [])), 3),
        ("grow by hand", grow(("ok", 4, [[1]])), 3),
        ("validate growing", grow(("ok", 6, None), validate_only=True), 3),
        ("grow names that cannot be", grow(("bad name", 3, None), ("", 3, None)), 3),
    ]


def _alter_cases() -> list[Case]:
    def on_ok(*changes: tuple[str, int, str | None]) -> IncrementalAlterConfigsRequest:
        return alter((TOPIC, "ok", *changes))

    metrics, group = (CLIENT_METRICS, "m1"), (GROUP, "g1")
    five = ("retention.ms", SET, "5")
    return [
        ("set", on_ok(five), 1),
        ("set an unknown config", on_ok(("nonsense", SET, "5")), 1),
        ("set a bad value", on_ok(("retention.ms", SET, "abc")), 1),
        ("delete an unknown config", on_ok(("nonsense", DELETE, None)), 1),
        ("delete", on_ok(("retention.ms", DELETE, None)), 1),
        ("delete with a value", on_ok(("retention.ms", DELETE, "x")), 1),
        ("append to a number", on_ok(("retention.ms", APPEND, "5")), 1),
        ("append to an unknown config", on_ok(("nonsense", APPEND, "5")), 1),
        ("append", on_ok(("cleanup.policy", APPEND, "compact")), 1),
        ("subtract", on_ok(("cleanup.policy", SUBTRACT, "delete")), 1),
        ("subtract the last", on_ok(("cleanup.policy", SUBTRACT, "compact")), 1),
        ("set an item twice", on_ok(("cleanup.policy", SET, "delete,delete")), 1),
        ("set an empty list", on_ok(("cleanup.policy", SET, "")), 1),
        ("unknown operation", on_ok(("retention.ms", 9, "5")), 1),
        ("set null", on_ok(("retention.ms", SET, None)), 1),
        ("append null", on_ok(("cleanup.policy", APPEND, None)), 1),
        ("a key twice", on_ok(five, ("retention.ms", SET, "6")), 1),
        ("alter an unknown topic", alter((TOPIC, "nope", five)), 1),
        ("alter a name that cannot be", alter((TOPIC, "bad name", five)), 1),
        ("alter the topic without name", alter((TOPIC, "", five)), 1),
        ("unknown config of an unknown topic", alter((TOPIC, "nope", ("nonsense", SET, "5"))), 1),
        (
            "a resource twice",
            alter((TOPIC, "ok", five), (TOPIC, "ok", ("retention.ms", SET, "6")), (TOPIC, "x1", five)),
            1,
        ),
        ("unknown resource type", alter((7, "ok", five)), 1),
        ("resource type 0", alter((0, "ok", five)), 1),
        ("validate altering", alter((TOPIC, "ok", ("retention.ms", SET, "99")), validate_only=True), 1),
        ("alter nothing of a topic", alter((TOPIC, "ok")), 1),
        ("alter nothing", alter(), 1),
        (
            "cross lags",
            on_ok(("min.compaction.lag.ms", SET, "9223372036854775807"), ("max.compaction.lag.ms", SET, "5")),
            1,
        ),
        ("min.insync.replicas of a topic", on_ok(("min.insync.replicas", SET, "2")), 1),
        ("min.insync.replicas 0", on_ok(("min.insync.replicas", SET, "0")), 1),
        ("throttled replicas", on_ok(("follower.replication.throttled.replicas", APPEND, "0:1,1:1")), 1),
        ("bad throttled replicas", on_ok(("follower.replication.throttled.replicas", APPEND, "x")), 1),
        ("throttle again", on_ok(("leader.replication.throttled.replicas", APPEND, "0:1," * 7000 + "0:2")), 1),
        ("group", alter((*group, ("consumer.session.timeout.ms", SET, "50000"))), 1),
        ("group, unknown config", alter((*group, ("nonsense", SET, "50000"))), 1),
        ("group, below the least", alter((*group, ("consumer.session.timeout.ms", SET, "1"))), 1),
        ("group, above the most", alter((*group, ("consumer.session.timeout.ms", SET, "900000"))), 1),
        ("group without name", alter((GROUP, "", ("consumer.session.timeout.ms", SET, "50000"))), 1),
        ("metrics", alter((*metrics, ("interval.ms", SET, "5000"))), 1),
        ("metrics, too often", alter((*metrics, ("interval.ms", SET, "50"))), 1),
        ("metrics, bad value", alter((*metrics, ("interval.ms", SET, "abc"))), 1),
        ("metrics, unknown config", alter((*metrics, ("nonsense", SET, "5"))), 1),
        ("metrics without name", alter((CLIENT_METRICS, "", ("interval.ms", SET, "5000"))), 1),
        ("metrics match", alter((*metrics, ("match", SET, "client_id=a.*,client_source_port=1"))), 1),
        ("metrics match of an unknown key", alter((*metrics, ("match", SET, "foo=a"))), 1),
        ("metrics match without expression", alter((*metrics, ("match", SET, "client_id"))), 1),
        ("metrics match of a bad expression", alter((*metrics, ("match", SET, "client_id=["))), 1),
        ("append to metrics", alter((*metrics, ("metrics", APPEND, "org.x"))), 1),
        ("append to interval", alter((*metrics, ("interval.ms", APPEND, "5"))), 1),
        ("remove the cluster's min.insync.replicas", alter((BROKER, "", ("min.insync.replicas", DELETE, None))), 1),
        ("min.insync.replicas of a broker", alter((BROKER, "1", ("min.insync.replicas", SET, "1"))), 1),
        ("the cluster's min.insync.replicas", alter((BROKER, "", ("min.insync.replicas", SET, "1"))), 1),
        ("replace", replace((TOPIC, "ok", ("retention.ms", "7"), ("cleanup.policy", "compact"))), 2),
        ("replace, unknown config", replace((TOPIC, "ok", ("nonsense", "7"))), 2),
        ("replace with null", replace((TOPIC, "ok", ("retention.ms", None))), 2),
        ("replace with nothing", replace((TOPIC, "ok")), 2),
        ("replace on an unknown topic", replace((TOPIC, "nope", ("retention.ms", "7"))), 2),
        ("replace with a key twice", replace((TOPIC, "ok", ("retention.ms", "7"), ("retention.ms", "8"))), 2),
        ("replace on an unknown type", replace((7, "ok", ("retention.ms", "7"))), 2),
        ("replace on a logger", replace((BROKER_LOGGER, "1", ("a", "7"))), 2),
    ]


def _delete_cases() -> list[Case]:
    some_id = Uuid.from_int(777)
    both = DeleteTopicState(name="x2", topic_id=some_id)
    return [
        ("delete topics, old version", DeleteTopicsRequest(topic_names=["ok", "nope"], timeout_ms=10_000), 5),
        ("delete topics", delete(named("x1"), named("nope"), named("bad name"), named("")), 6),
        ("delete a topic twice", delete(named("x2"), named("x2")), 6),
        ("delete neither and both", delete(DeleteTopicState(), DeleteTopicState(topic_id=some_id), both), 6),
        ("delete an id twice", delete(DeleteTopicState(topic_id=some_id), DeleteTopicState(topic_id=some_id)), 6),
        ("delete the metadata topic", delete(named("__cluster_metadata")), 6),
        ("delete nothing", delete(), 6),
    ]


def requests_for_broker() -> list[Case]:
    return [*_create_cases(), *_grow_cases(), *_alter_cases(), *_delete_cases()]


def _feature_cases() -> list[Case]:
    changes: list[tuple[Any, ...]] = [
        ("metadata.version", 25, SAFE_DOWNGRADE),
        ("metadata.version", 25, UNSAFE_DOWNGRADE),
        ("metadata.version", 25, UPGRADE),
        ("metadata.version", 29, SAFE_DOWNGRADE),
        ("metadata.version", 31, UPGRADE),
        ("metadata.version", 99, UPGRADE),
        ("metadata.version", 30, UPGRADE),
        ("group.version", -1, UPGRADE),
        ("group.version", 0, UPGRADE),
        ("group.version", 1, SAFE_DOWNGRADE),
        ("group.version", 1, 9),
        ("group.version", 5, UPGRADE),
        ("nope.version", 1, UPGRADE),
        ("nope.version", 0, UPGRADE),
        ("nope.version", 0, SAFE_DOWNGRADE),
        ("transaction.version", 1, SAFE_DOWNGRADE),
        ("transaction.version", 2, UPGRADE),
        ("kraft.version", 0, SAFE_DOWNGRADE),
        ("kraft.version", 1, UPGRADE),
        ("kraft.version", 2, UPGRADE),
        ("eligible.leader.replicas.version", 0, SAFE_DOWNGRADE),
        ("eligible.leader.replicas.version", 1, UPGRADE),
    ]
    cases: list[Case] = [(f"{name} to {level} by {how}", update((name, level, how)), 2) for name, level, how in changes]
    good, bad = ("transaction.version", 1, SAFE_DOWNGRADE), ("group.version", 7, UPGRADE)
    return [
        *cases,
        ("old version", update(("metadata.version", 30, UPGRADE)), 1),
        ("one of two is bad", update(good, bad), 2),
        ("one of two is bad, old version", update(good, bad), 1),
        ("two", update(good, ("group.version", 1, UPGRADE)), 1),
        ("update nothing", update(), 2),
        ("validate an update", update(("share.version", 0, SAFE_DOWNGRADE), validate_only=True), 2),
    ]


def requests_for_controller() -> list[Case]:
    broker = (BROKER, "1")
    return [
        ("create", create(new_topic("cx"), new_topic("cx2")), 7),
        ("unknown broker", alter((BROKER, "9", ("log.cleaner.threads", SET, "1"))), 1),
        ("broker that is no number", alter((BROKER, "x", ("log.cleaner.threads", SET, "1"))), 1),
        ("negative broker", alter((BROKER, "-5", ("log.cleaner.threads", SET, "1"))), 1),
        ("broker config of a bad type", alter((*broker, ("log.cleaner.threads", SET, "abc"))), 1),
        ("broker config", alter((*broker, ("log.cleaner.threads", SET, "2"))), 1),
        ("delete a broker config", alter((*broker, ("log.cleaner.threads", DELETE, None))), 1),
        ("unknown broker config", alter((*broker, ("unknown.thing", SET, "2"))), 1),
        ("topic config out of range", alter((TOPIC, "cx", ("segment.bytes", SET, "100"))), 1),
        *_feature_cases(),
        ("unregister an unknown broker", UnregisterBrokerRequest(broker_id=77), 0),
        ("heartbeat of an unknown broker", BrokerHeartbeatRequest(broker_id=77, broker_epoch=5), 2),
        ("heartbeat of another life", BrokerHeartbeatRequest(broker_id=1, broker_epoch=99_999), 2),
        ("ids for an unknown broker", AllocateProducerIdsRequest(broker_id=77, broker_epoch=5), 0),
        ("ids for another life", AllocateProducerIdsRequest(broker_id=1, broker_epoch=99_999), 0),
    ]
