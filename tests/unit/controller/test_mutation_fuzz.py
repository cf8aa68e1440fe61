"""A controller answers any request, stays the leader, and a standby that replays its log is equal to it.

Requests have valid and invalid values in every field, existing and missing names, duplicates, and up to
thousands of entries. A response with only errors leaves nothing in the log. Failing examples are printed as a seed;
``make fuzz`` tries many more.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.config_value import Password
from barnabas.common.uuid import Uuid
from barnabas.controller import apis
from barnabas.controller.append_limits import BATCH_MAX_BYTES
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_serde import encode_metadata_record
from barnabas.protocol.schema import Field, Struct
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.request_context import RequestContext
from tests.unit.controller.controller_harness import ControllerHarness, directory_of, topic

NOT_DECIDING = {"request_checks", "alter_configs_checks", "api_versions", "sasl_handshake", "sasl_authenticate"}
MODULES = {
    ApiKey[name.upper()]: import_module(f"barnabas.controller.apis.{name}")
    for _, name, _ in pkgutil.iter_modules(apis.__path__)
    if name.upper() in ApiKey.__members__ and name not in NOT_DECIDING
}
ONE_BY_ONE = {ApiKey.BROKER_HEARTBEAT, ApiKey.BROKER_REGISTRATION, ApiKey.CONTROLLER_REGISTRATION}
"""These describe a single node, so none of their arrays has thousands of elements."""
SEEDS = st.integers(min_value=0, max_value=2**64 - 1)
TOPIC_IDS = [Uuid.from_int(0x1_0000_0001 + number) for number in range(3)]
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"

LONGEST = 32_767
TOPICS = (
    "orders",
    "payments",
    "a.b",
    "a_b",
    "",
    "bad name",
    "x" * 250,
    "x" * LONGEST,
    "__cluster_metadata",
    "new",
    "ä",
)
CONFIGS = ("retention.ms", "cleanup.policy", "nonsense", "", "min.insync.replicas", "interval.ms", "match", "x" * 300)
TEXTS = ("", "1", "-1", "compact", "compact,delete", "delete", "User:alice", "*", "1e99", "0:1,1:1", "x" * LONGEST)
WORDS: dict[str, tuple[Any, ...]] = {
    "topic": TOPICS,
    "topic_names": TOPICS,
    "resource_name": (*TOPICS, "1", "9", "-5"),
    "resource_name_filter": (*TOPICS, "*"),
    "entity_type": ("user", "client-id", "ip", "", "group"),
    "entity_name": ("alice", "app", "127.0.0.1", "::1", "localhost", "no host", "", "x" * LONGEST),
    "key": ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "connection_creation_rate", "", "no"),
    "feature": ("metadata.version", "group.version", "kraft.version", "eligible.leader.replicas.version", "", "no"),
    "principal": ("User:alice", "User:*", "User:", "alice", "", ":", "Group:x", "User:" + "y" * (LONGEST - 5)),
    "host": ("*", "127.0.0.1", "::1", "not a host", ""),
    "principal_type": ("User", "Group", "", "user"),
    "principal_name": ("alice", "bob", "", "z" * LONGEST),
    "cluster_id": (CLUSTER_ID, "another"),
}
NUMBERS: dict[str, tuple[int, ...]] = {
    "broker_id": (1, 2, 3, 9, -1),
    "broker_ids": (1, 2, 3, 9, -1, 1),
    "replicas": (1, 2, 3, 9, -1, 1),
    "partitions": (0, 1, 2, -1, 2**31 - 1),
    "partition_index": (0, 1, 2, -1, 2**31 - 1),
    "num_partitions": (1, 3, 0, -1, -2, 10_001, 2**31 - 1),
    "count": (3, 4, 0, -1, 10_050, 2**31 - 1),
    "replication_factor": (1, 2, 3, -1, 0, 32767),
    "resource_type": (2, 4, 8, 16, 32, 0, 3, 99, -1),
    "max_version_level": (0, 1, 2, 25, 30, 31, -1, 32767),
    "iterations": (4096, 8192, 0, 16384, 2**31 - 1, -1),
}
GOOD: dict[str, tuple[Any, ...]] = {
    "CreatableTopic.name": ("new-1", "new-2", "new-3"),
    "CreatableTopic.num_partitions": (1, 3, -1),
    "CreatableTopic.replication_factor": (1, 2, -1),
    "CreatableTopic.assignments": ([],),
    "CreatableTopicConfig.name": ("retention.ms", "segment.ms"),
    "CreatableTopicConfig.value": ("60000",),
    "CreatePartitionsTopic.name": ("orders", "payments"),
    "CreatePartitionsTopic.count": (4, 5, 9),
    "CreatePartitionsTopic.assignments": (None,),
    "DeleteTopicState.topic_id": (Uuid.ZERO,),
    "DeleteTopicState.name": ("orders", "payments", "a.b"),
    "AlterConfigsResource.resource_type": (2,),
    "AlterConfigsResource.resource_name": ("orders", "payments"),
    "AlterableConfig.name": ("retention.ms", "segment.ms", "max.message.bytes"),
    "AlterableConfig.value": ("70000", "80000", None),
    "AlterableConfig.config_operation": (0, 1),
    "AclCreation.resource_type": (2, 3, 4),
    "AclCreation.resource_name": ("orders", "kafka-cluster", "g"),
    "AclCreation.resource_pattern_type": (3, 4),
    "AclCreation.principal": ("User:alice", "User:*"),
    "AclCreation.host": ("*", "127.0.0.1"),
    "AclCreation.operation": (3, 4, 8),
    "AclCreation.permission_type": (2, 3),
    "EntityData.entity_type": ("user", "client-id"),
    "EntityData.entity_name": ("alice", "app", None),
    "OpData.key": ("producer_byte_rate", "consumer_byte_rate", "request_percentage"),
    "OpData.value": (1.0, 1000.0),
    "FeatureUpdateKey.feature": ("eligible.leader.replicas.version", "metadata.version"),
    "FeatureUpdateKey.max_version_level": (0, 1, 30),
    "FeatureUpdateKey.upgrade_type": (1, 2, 3),
    "ReassignableTopic.name": ("orders", "payments"),
    "ReassignablePartition.partition_index": (0, 1, 2),
    "ReassignablePartition.replicas": ([1], [2, 1], [1, 2, 3], [3], None),
    "TopicPartitions.topic": ("orders", "payments"),
    "TopicPartitions.partitions": ([0], [0, 1]),
    "TopicData.topic_id": tuple(TOPIC_IDS),
    "PartitionData.partition_index": (0, 1, 2),
    "PartitionData.leader_epoch": (0,),
    "PartitionData.partition_epoch": (0,),
    "PartitionData.new_isr": ([1], [2], [3]),
    "PartitionData.leader_recovery_state": (0,),
    "BrokerRegistrationRequest.cluster_id": (CLUSTER_ID,),
    "validate_only": (False,),
    "broker_id": (1, 2, 3),
    "controller_id": (1,),
}
"""Values that go together: few requests would change anything if all of their fields were drawn by themselves."""
SMALL = (0, 1, 2, 3, 4, 5, -1, 127)


def context(api: ApiKey, version: int) -> RequestContext:
    return RequestContext(
        api_key=api, api_version=version, principal=Principal("User", "alice"), security_protocol="SASL_SSL"
    )


def stage(**config: Any) -> ControllerHarness:
    harness = ControllerHarness(delegation_token_secret_key=Password("secret"), **config).activate()
    authorizer: Any = StandardAuthorizer()
    authorizer.super_users = frozenset({Principal("User", "alice"), ANONYMOUS})
    harness.authorizer = authorizer
    for broker_id in (1, 2, 3):
        harness.start_broker(broker_id)
    harness.create(topic("orders", 3, 2), topic("payments", 1, 3), topic("a.b", 2, 1))
    return harness


def _broker_epochs() -> tuple[int, ...]:
    return tuple(broker.epoch for broker in stage().controller.state.image.cluster.brokers.values())


def message(cls: type[Struct], version: int, random: Random, entries_max: int, luck: float) -> Any:
    """``luck``: how many fields have a value that may be valid."""
    values: dict[str, Any] = {}
    for field in cls.FIELDS:
        if field.in_version(version):
            good = GOOD.get(f"{cls.__name__}.{field.name}") or GOOD.get(field.name)
            if field.name == "broker_epoch":
                good = BROKER_EPOCHS
            if good is not None and random.random() < luck:
                values[field.name] = random.choice(good)
            else:
                values[field.name] = value_of(field, field.kind, version, random, entries_max, luck)
    for field in cls.FIELDS:
        if values.get(field.name, 0) is None and not field.is_nullable(version):
            values[field.name] = value_of(field, field.kind, version, random, entries_max, luck)
    return cls(**values)


def value_of(field: Field, kind: str, version: int, random: Random, entries_max: int, luck: float) -> Any:
    if kind == field.kind and field.is_nullable(version) and random.random() < 0.2:
        return None
    if kind == "array":
        count = (
            random.choice((0, 1, 2, 3, entries_max)) if random.random() > luck else random.choice((1, 1, entries_max))
        )
        few = [value_of(field, field.element or "", version, random, 3, luck) for _ in range(min(count, 40))]
        return few + [random.choice(few) for _ in range(count - len(few))]
    if kind == "struct":
        assert field.type is not None
        return message(field.type, version, random, entries_max, luck)
    if kind == "bool":
        return random.random() < 0.4
    if kind == "string":
        words = WORDS.get(field.name)
        if words is None:
            words = (*TOPICS, *CONFIGS) if field.name == "name" else TEXTS
        return random.choice(words)
    if kind in ("bytes", "records"):
        return random.randbytes(random.choice((0, 1, 32, 64)))
    if kind == "uuid":
        return random.choice((Uuid.ZERO, *TOPIC_IDS, directory_of(1), directory_of(2), Uuid(random.randbytes(16))))
    if kind == "float64":
        return random.choice((1.0, 0.0, -1.0, 0.5, 1e19, float("nan"), float("inf"), 7.25))
    return number_of(field, kind, random)


def number_of(field: Field, kind: str, random: Random) -> int:
    bits = int(kind.lstrip("uint"))
    low, high = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    wanted = random.choice(
        (*NUMBERS.get(field.name, SMALL), *SMALL, low, high)
        if random.random() < 0.3
        else NUMBERS.get(field.name, SMALL)
    )
    return min(max(wanted, low), high)


BROKER_EPOCHS = _broker_epochs()


def error_codes(answer: Any) -> list[int]:
    if isinstance(answer, list):
        return [code for element in answer for code in error_codes(element)]
    if not isinstance(answer, dict):
        return []
    own = [code for name, code in answer.items() if name == "errorCode"]
    return own + [code for element in answer.values() for code in error_codes(element)]


def ask(harness: ControllerHarness, api: ApiKey, random: Random, entries_max: int) -> None:
    module = MODULES[api]
    messages = import_module(f"barnabas.protocol.messages.{api.name.lower()}")
    request_type = next(
        declared
        for name, declared in vars(messages).items()
        if name.endswith("Request") and getattr(declared, "API_KEY", -1) == api
    )
    version = random.randint(request_type.MIN_VERSION, request_type.MAX_VERSION)
    sent = message(request_type, version, random, entries_max, random.choice((0.0, 0.7, 0.95, 1.0)))
    request = request_type.decode(sent.encode(version), version)
    check = getattr(module, "check_request", None)
    if check is not None:
        try:
            check(request)
        except DecodeError:
            return  # Such a request is not handled: the connection closes.
    end_before, batches_before = harness.end_offset, len(harness.log)
    deferred = module.handle(harness.controller, context(api, version), request, harness.authorizer)
    answer = harness.answer(deferred)
    assert not harness.faults, f"{api.name} version {version}: {str(request)[:1000]}"
    assert harness.controller.is_active
    answer.encode(version)
    codes = error_codes(answer.to_json(version))
    if codes and all(codes):
        assert harness.end_offset == end_before, f"{api.name} version {version} failed and wrote: {answer}"
    for batch in harness.log[batches_before:]:
        assert (
            sum(len(encode_metadata_record(record, version_of(record))) for record in batch.records) <= BATCH_MAX_BYTES
        )


def version_of(record: Any) -> int:
    return int(type(record).MAX_VERSION)


def check_standby(harness: ControllerHarness, **config: Any) -> None:
    standby = ControllerHarness(delegation_token_secret_key=Password("secret"), **config)
    standby.controller.handle_commit(harness.log)
    assert standby.controller.committed_image == harness.controller.committed_image
    assert harness.controller.committed_image == harness.controller.state.image


@pytest.mark.parametrize("api", MODULES, ids=lambda api: api.name)
@settings(max_examples=max(15, settings.default.max_examples // 5))
@given(seed=SEEDS)
def test_any_request_is_answered_and_changes_nothing_by_an_error(api: ApiKey, seed: int) -> None:
    random, harness = Random(seed), stage()
    for _ in range(6):
        ask(harness, api, random, entries_max=4)
    check_standby(harness)


@settings(max_examples=max(10, settings.default.max_examples // 10))
@given(seed=SEEDS)
def test_any_history_of_requests_is_replayed_alike(seed: int) -> None:
    random, harness = Random(seed), stage()
    for _ in range(40):
        ask(harness, random.choice(list(MODULES)), random, entries_max=4)
        harness.clock.ms += random.choice((0, 10, 1000))
    check_standby(harness)


@pytest.mark.parametrize("api", [api for api in MODULES if api not in ONE_BY_ONE], ids=lambda api: api.name)
@settings(max_examples=max(2, settings.default.max_examples // 50))
@given(seed=SEEDS)
def test_thousands_of_entries_are_answered_or_refused_whole(api: ApiKey, seed: int) -> None:
    random, harness = Random(seed), stage(max_records_per_batch=500)
    ask(harness, api, random, entries_max=3000)
    check_standby(harness, max_records_per_batch=500)
