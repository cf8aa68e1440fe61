"""How long a node takes for the requests of an operator's tools: ACLs, settings and topics, one client for both sides.

The caller is a super user over SASL/PLAIN, on a node that decides by ACLs. Answers are taken off the wire and decoded
after the clock stopped. A repeat of a figure is one request, or all that a figure needs one after another; the median
counts, after a warm-up that does not. The node's CPU time is read when it has come to rest: what it put off is in it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple, Protocol

from barnabas.common.acl import AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.headers import ResponseHeader, response_header_version
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.schema import Message, Request
from bench.sides import SIDES, new_node, usage_of
from tests.peers import KafkaNode
from tests.peers.acl_matrix import ADMIN
from tests.peers.acl_stage import log_in, secure_settings
from tests.peers.command_node import CommandNode

__all__ = ["SETTINGS_OF_A_TOPIC", "Sizes", "check_answer", "measure_admin", "version_of"]

SETTINGS_OF_A_TOPIC = 33
_TOPICS_PER_REQUEST = 100
_DESCRIBED_PER_REQUEST = 500
_RESTS_BELOW = 0.1
_REST_S = 0.5
_REST_LIMIT_S = 10
_ANY = 1
_SET = 0
_PREFIX = "admin-"


class Sizes(NamedTuple):
    """How much of everything; the default is what the page is about."""

    acls: int = 7_000
    acls_per_request: int = 1_000
    topics: int = 1_000
    described: int = 10_000
    singles: int = 100
    single_warm_up: int = 100
    passes: int = 5


class _Repeat(NamedTuple):
    """Requests that are one repeat of a figure, and what undoes it."""

    requests: list[Request[Message]]
    undo: Request[Message] | None = None
    is_checked: bool = True
    """Decoding the settings of many topics takes long, and once says as much as ten times."""


def measure_admin(rounds: int, sizes: Sizes | None = None) -> dict[str, dict[str, float]]:
    """The medians of the rounds by side, which take turns, each on a new node."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder:
        for number in range(rounds):
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                node = new_node(side, Path(folder) / f"{side}-{number}")
                found[side].append(_measure_round(node, sizes or Sizes()))
                for name, value in found[side][-1].items():
                    print(f"admin: {side}: {name} {value:,.2f}", flush=True)
    return {
        side: {name: statistics.median(figures[name] for figures in of_rounds) for name in of_rounds[0]}
        for side, of_rounds in found.items()
    }


def _measure_round(node: KafkaNode | CommandNode, sizes: Sizes) -> dict[str, float]:
    """One round on a node that is new: neither formatted nor started. It is stopped at the end."""
    node.change_settings(secure_settings(node, []))
    node.start()
    try:
        clock = _Clock(node)
        clock.measure("create one ACL", _single_acls(), sizes.single_warm_up, sizes.singles)
        clock.measure(f"create {sizes.acls:,} ACLs", _many_acls(sizes), 2, sizes.passes)
        made = sizes.described // sizes.topics
        clock.measure(f"create {sizes.topics:,} topics", _topics(sizes), made // 5, made - made // 5)
        clock.measure("change one setting", _changed_settings(), sizes.single_warm_up, sizes.singles)
        what = f"describe {sizes.described:,} topics' settings"
        clock.measure(what, _descriptions(sizes, with_synonyms=False), 2, sizes.passes)
        clock.measure(f"{what} with synonyms", _descriptions(sizes, with_synonyms=True), 1, sizes.passes)
        clock.close()
        return clock.figures
    finally:
        node.stop(timeout_s=120)


class _HasError(Protocol):
    error_code: int


class _Clock:
    """Sends requests, and keeps how long their answers took."""

    def __init__(self, node: KafkaNode | CommandNode) -> None:
        self._node = node
        self._client = log_in(node.port, ADMIN, timeout_s=120)
        self.figures: dict[str, float] = {}

    def measure(self, name: str, repeats: Iterator[_Repeat], warm_up: int, counted: int) -> None:
        for repeat in islice(repeats, warm_up):
            self._elapsed_s(repeat)
        self._rest()
        times, before = [], usage_of(self._node.pid).cpu_s
        for repeat in islice(repeats, counted):
            times.append(self._elapsed_s(repeat))
            if len(repeat.requests) > 1:
                self._rest()
        self._rest()
        self.figures[f"{name}, ms"] = statistics.median(times) * 1000
        self.figures[f"CPU to {name}, ms"] = (usage_of(self._node.pid).cpu_s - before) / counted * 1000

    def close(self) -> None:
        self._client.close()

    def _elapsed_s(self, repeat: _Repeat) -> float:
        elapsed = 0.0
        for request in repeat.requests:
            began = time.perf_counter()
            frame = self._client.exchange(request, version_of(request))
            elapsed += time.perf_counter() - began
            if repeat.is_checked:
                check_answer(request, frame)
        if repeat.undo is not None:
            check_answer(repeat.undo, self._client.exchange(repeat.undo, version_of(repeat.undo)))
        return elapsed

    def _rest(self) -> None:
        """Wait until the node does next to nothing."""
        deadline = time.monotonic() + _REST_LIMIT_S
        while time.monotonic() < deadline:
            before = usage_of(self._node.pid).cpu_s
            time.sleep(_REST_S)
            if usage_of(self._node.pid).cpu_s - before < _RESTS_BELOW * _REST_S:
                return


def version_of(request: Request[Message]) -> int:
    return API_TABLE[ApiKey(request.API_KEY)].highest


def check_answer(request: Request[Message], frame: bytes) -> None:
    """Raise AssertionError unless everything was done and returned completely."""
    key, version = ApiKey(request.API_KEY), version_of(request)
    _, position = ResponseHeader.read(frame, 0, response_header_version(key, version))
    if isinstance(request, DescribeConfigsRequest):
        described = DescribeConfigsResponse.decode(frame, version, position).results
        assert len(described) == len(request.resources), f"{len(described)} of {len(request.resources)} topics"
        for topic in described:
            assert not topic.error_code, topic
            assert len(topic.configs) == SETTINGS_OF_A_TOPIC, f"{len(topic.configs)} settings"
        return
    codes = {result.error_code for result in _results(request, frame, version, position)}
    assert codes == {0}, f"{type(request).__name__}: errors {codes}"


def _results(request: Request[Message], frame: bytes, version: int, position: int) -> Iterable[_HasError]:
    if isinstance(request, CreateAclsRequest):
        return CreateAclsResponse.decode(frame, version, position).results
    if isinstance(request, DeleteAclsRequest):
        return DeleteAclsResponse.decode(frame, version, position).filter_results
    if isinstance(request, CreateTopicsRequest):
        return CreateTopicsResponse.decode(frame, version, position).topics
    return IncrementalAlterConfigsResponse.decode(frame, version, position).responses


def _single_acls() -> Iterator[_Repeat]:
    for number in count():
        yield _Repeat([CreateAclsRequest(creations=[_acl("single", number)])])


def _many_acls(sizes: Sizes) -> Iterator[_Repeat]:
    """Always the same ones, which are deleted in between."""
    creations = [_acl("many", number) for number in range(sizes.acls)]
    step = sizes.acls_per_request
    requests: list[Request[Message]] = [
        CreateAclsRequest(creations=creations[start : start + step]) for start in range(0, sizes.acls, step)
    ]
    of_them = DeleteAclsFilter(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter="User:many",
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    while True:
        yield _Repeat(requests, DeleteAclsRequest(filters=[of_them]))


def _acl(principal: str, number: int) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=f"{_PREFIX}{number:06}",
        resource_pattern_type=PatternType.LITERAL,
        principal=f"User:{principal}",
        host="*",
        operation=AclOperation.READ,
        permission_type=AclPermissionType.ALLOW,
    )


def _topics(sizes: Sizes) -> Iterator[_Repeat]:
    """Always new ones. Every other has two settings of its own."""
    for first in count(0, sizes.topics):
        topics = [
            CreatableTopic(
                name=f"{_PREFIX}{number:06}",
                num_partitions=1,
                replication_factor=1,
                configs=_own_settings(number) if number % 2 else [],
            )
            for number in range(first, first + sizes.topics)
        ]
        starts = range(0, sizes.topics, _TOPICS_PER_REQUEST)
        yield _Repeat(
            [CreateTopicsRequest(topics=topics[at : at + _TOPICS_PER_REQUEST], timeout_ms=60_000) for at in starts]
        )


def _own_settings(number: int) -> list[CreatableTopicConfig]:
    return [
        CreatableTopicConfig(name="retention.ms", value=str(3_600_000 + number)),
        CreatableTopicConfig(name="max.message.bytes", value="2000000"),
    ]


def _changed_settings() -> Iterator[_Repeat]:
    for number in count():
        change = AlterableConfig(name="retention.ms", config_operation=_SET, value=str(86_400_000 + number))
        topic = AlterConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=f"{_PREFIX}{0:06}", configs=[change]
        )
        yield _Repeat([IncrementalAlterConfigsRequest(resources=[topic])])


def _descriptions(sizes: Sizes, *, with_synonyms: bool) -> Iterator[_Repeat]:
    asked = [
        DescribeConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=f"{_PREFIX}{number:06}", configuration_keys=None
        )
        for number in range(sizes.described)
    ]
    requests: list[Request[Message]] = [
        DescribeConfigsRequest(resources=asked[at : at + _DESCRIBED_PER_REQUEST], include_synonyms=with_synonyms)
        for at in range(0, sizes.described, _DESCRIBED_PER_REQUEST)
    ]
    for number in count():
        yield _Repeat(requests, is_checked=number == 0)
