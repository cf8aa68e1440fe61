"""Envelopes of every kind, good and bad, for a new controller without any changes (KIP-590).

The controller has an authorizer for which ANONYMOUS is a super user, a listener without logins, and another one with
SASL/PLAIN for ``bob``, a user without rights. The answer is an Envelope response in version 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.headers import RequestHeader, request_header_version
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.envelope import EnvelopeRequest
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.protocol.messages.vote import VoteRequest
from barnabas.protocol.record_serde import encode_versioned
from barnabas.protocol.records.default_principal_data import DefaultPrincipalData
from barnabas.protocol.schema import Message

__all__ = ["EnvelopeCase", "envelope_of", "envelopes", "inner"]


class EnvelopeCase(NamedTuple):
    name: str
    frame: bytes
    """The body of an Envelope request."""
    inner: tuple[ApiKey, int] | None
    """How to decode the inner answer, if one exists."""
    as_bob: bool = False


def principal(name: str, *, type_: str = "User", by_token: bool = False) -> bytes:
    return encode_versioned(DefaultPrincipalData(type=type_, name=name, token_authenticated=by_token), 0)


SUPER = principal("ANONYMOUS")
ALICE = principal("alice")
HOST = bytes((192, 0, 2, 7))
_CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)])


def inner(request: Message, version: int, *, client_id: str | None = "terminal") -> bytes:
    """Return a client's request in the form inside an envelope."""
    key = ApiKey(request.API_KEY)
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=77, client_id=client_id
    ).encode(request_header_version(key, version))
    return header + request.encode(version)


def envelope_of(request: Message, version: int, *, who: bytes = SUPER, host: bytes = HOST) -> EnvelopeRequest:
    return EnvelopeRequest(request_data=inner(request, version), request_principal=who, client_host_address=host)


def _case(
    name: str,
    data: bytes,
    *,
    who: bytes | None = SUPER,
    host: bytes = HOST,
    answer: tuple[ApiKey, int] | None = None,
    as_bob: bool = False,
    behind: bytes = b"",
) -> EnvelopeCase:
    frame = EnvelopeRequest(request_data=data, request_principal=who, client_host_address=host).encode(0)
    return EnvelopeCase(name, frame[:-1] + behind if behind else frame, answer, as_bob)


def envelopes() -> Iterator[EnvelopeCase]:
    """Yield the envelopes, to be sent in this order to one new controller."""
    yield from _about_the_envelope()
    yield from _about_the_header()
    yield from _about_the_api()
    yield from _about_the_body()
    yield from _answered()


def _about_the_envelope() -> Iterator[EnvelopeCase]:
    good = inner(_CREATE, 7)
    yield _case("sender without rights", good, as_bob=True)
    yield _case("sender without rights, nothing readable inside", b"\xff", who=b"\xff", host=b"", as_bob=True)
    for name, who in (
        ("no principal", None),
        ("empty principal", b""),
        ("principal of one byte", b"\0"),
        ("garbage as principal", b"\xff\xfe\xfd"),
        ("principal of version 1", b"\0\1" + ALICE[2:]),
        ("principal of version -1", b"\xff\xff" + ALICE[2:]),
        ("principal cut short", ALICE[:-2]),
    ):
        yield _case(name, good, who=who)
    yield _case("bad principal and bad address", good, who=b"\xff", host=b"\1\2\3")
    for size in (0, 3, 5, 15, 17):
        yield _case(f"address of {size} bytes", good, host=bytes(size))
    yield _case("bad address and nothing readable inside", b"", host=b"\1\2\3")


def _header(key: int, version: int, client_id: bytes = b"\0\0", tags: bytes = b"\0") -> bytes:
    return (
        key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + b"\0\0\0\7" + client_id + tags
    )


def _about_the_header() -> Iterator[EnvelopeCase]:
    create, body = ApiKey.CREATE_TOPICS, _CREATE.encode(7)
    for name, data in (
        ("nothing inside", b""),
        ("one byte inside", b"\0"),
        ("only key and version", _header(create, 7)[:4]),
        ("header without client id", _header(create, 7)[:8]),
        ("unknown API", _header(999, 0) + body),
        ("negative API", _header(-1, 0) + body),
        ("version too high", _header(create, 99) + body),
        ("version too low", _header(create, 1, tags=b"") + body),
        ("negative version", _header(create, -1, tags=b"") + body),
        ("client id too long", _header(create, 7, b"\x7f\xff") + body),
        ("no tags behind the header", _header(create, 7, tags=b"")),
        ("tag cut short", _header(create, 7, tags=b"\1\5\x7f")),
    ):
        yield _case(name, data)
    answer = (create, 7)
    checks = CreateTopicsRequest(topics=[CreatableTopic(name="a/b", num_partitions=1, replication_factor=1)]).encode(7)
    yield _case("client id of length -2", _header(create, 7, b"\xff\xfe") + checks, answer=answer)
    yield _case("unknown tag in the header", _header(create, 7, tags=b"\1\5\2hi") + checks, answer=answer)
    yield _case("no client id", _header(create, 7, b"\xff\xff") + checks, answer=answer)
    yield _case("client id that is no UTF-8", _header(create, 7, b"\0\2\xff\xfe") + checks, answer=answer)
    yield _case("unknown tag in the envelope", _header(create, 7) + checks, answer=answer, behind=b"\1\5\2hi")


def _about_the_api() -> Iterator[EnvelopeCase]:
    envelope = EnvelopeRequest(request_data=b"", request_principal=SUPER, client_host_address=HOST)
    for name, request, version in (
        ("Metadata", MetadataRequest(), 12),
        ("ApiVersions", ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4),
        ("BrokerHeartbeat", BrokerHeartbeatRequest(broker_id=1), 1),
        ("Vote", VoteRequest(), 2),
        ("DescribeConfigs", DescribeConfigsRequest(), 4),
        ("an envelope", envelope, 0),
    ):
        yield _case(f"{name} inside", inner(request, version))
    for name, data in (
        ("Metadata of an unknown version inside", _header(ApiKey.METADATA, 99)),
        ("Metadata without a body inside", _header(ApiKey.METADATA, 12)),
        ("ApiVersions of an unknown version inside", _header(ApiKey.API_VERSIONS, 99)),
        ("Produce of an old version inside", _header(ApiKey.PRODUCE, 2, tags=b"")),
        ("Fetch without a body inside", _header(ApiKey.FETCH, 17)),
    ):
        yield _case(name, data)


def _about_the_body() -> Iterator[EnvelopeCase]:
    good = inner(_CREATE, 7)
    start = len(inner(CreateTopicsRequest(), 7)) - len(CreateTopicsRequest().encode(7))
    for size in range(start, len(good)):
        yield _case(f"body cut after {size - start} bytes", good[:size])


def _answered() -> Iterator[EnvelopeCase]:
    for version in range(2, 8):
        topic = CreatableTopic(name=f"made-{version}", num_partitions=1, replication_factor=1)
        key = ApiKey.CREATE_TOPICS
        data = inner(CreateTopicsRequest(topics=[topic]), version)
        yield _case(f"CreateTopics version {version}", data, answer=(key, version))
    acl = AclCreation(
        resource_type=2, resource_name="orders", principal="User:alice", host="*", operation=3, permission_type=3
    )
    config = AlterConfigsResource(
        resource_type=2,
        resource_name="made-7",
        configs=[AlterableConfig(name="retention.ms", config_operation=0, value="1000")],
    )
    credential = ScramCredentialDeletion(name="nobody", mechanism=1)
    anything = DeleteAclsFilter(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
    requests: tuple[tuple[Any, int], ...] = (
        (_CREATE, 7),
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="made-2", topic_id=Uuid.ZERO)], timeout_ms=9000), 6),
        (CreateAclsRequest(creations=[acl]), 3),
        (DeleteAclsRequest(filters=[anything]), 3),
        (
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="made-7", count=2, assignments=None)], timeout_ms=1000
            ),
            3,
        ),
        (
            CreateDelegationTokenRequest(max_lifetime_ms=1000, owner_principal_type="User", owner_principal_name="eve"),
            3,
        ),
        (RenewDelegationTokenRequest(hmac=b"unknown", renew_period_ms=1), 2),
        (ExpireDelegationTokenRequest(hmac=b"unknown", expiry_time_period_ms=1), 2),
        (ElectLeadersRequest(election_type=0, topic_partitions=[], timeout_ms=1000), 2),
        (IncrementalAlterConfigsRequest(resources=[config]), 1),
        (ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None), 0),
        (AlterClientQuotasRequest(), 1),
        (AlterUserScramCredentialsRequest(deletions=[credential]), 0),
        (UpdateFeaturesRequest(timeout_ms=1000), 2),
        (UnregisterBrokerRequest(broker_id=99), 0),
        (AllocateProducerIdsRequest(broker_id=99, broker_epoch=5), 0),
        (AllocateProducerIdsRequest(broker_id=1, broker_epoch=5), 0),
    )
    for who, whose in (("alice", ALICE), ("a super user", SUPER)):
        for request, version in requests:
            key = ApiKey(request.API_KEY)
            broker = f" of broker {request.broker_id}" if key is ApiKey.ALLOCATE_PRODUCER_IDS else ""
            name = f"{API_TABLE[key].name}{broker} by {who}"
            yield _case(name, inner(request, version), who=whose, answer=(key, version))
    create = ApiKey.CREATE_DELEGATION_TOKEN
    data = inner(CreateDelegationTokenRequest(max_lifetime_ms=1000), 3)
    by_token = principal("ANONYMOUS", by_token=True)
    yield _case("CreateDelegationToken by one who has a token", data, who=by_token, answer=(create, 3))
    topics = ApiKey.CREATE_TOPICS
    yield _case("bytes behind the body", inner(_CREATE, 7) + b"more", answer=(topics, 7))
    yield _case("an IPv6 address", inner(_CREATE, 7), host=bytes(15) + b"\1", answer=(topics, 7))
    yield _case("a principal that is no user", inner(_CREATE, 7), who=principal("x", type_="Group"), answer=(topics, 7))
    behind = SUPER + b"more"
    yield _case("bytes behind the principal", inner(_CREATE, 7), who=behind, answer=(topics, 7))
