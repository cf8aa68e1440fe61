"""The sets of ACLs that the authorizers are compared on, and what they are asked (reference: performance).

- ``tenant``: a cluster of teams, 20 rules a principal: 60 % on single topics, 28 % on the prefix of a team, the rest on
  groups; 5 % deny, 10 % hold for one host.
- ``hot``: one rule for each of as many principals, all on one prefix. It has taken production clusters down.
- ``benchmark``: like that of Kafka's own micro-benchmark: 10,000 patterns, every other a prefix, with 12 rules each,
  20 % deny, and 1,000 rules on the wildcard, each for one host.

They are drawn with a fixed seed: two runs compare the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType

__all__ = ["SHAPES", "TOPIC_NAMES", "Query", "Shape", "make_shape"]

SHAPES = ("tenant 100", "tenant 10k", "tenant 100k", "tenant 1M", "benchmark 121k", "hot 7k", "hot 100k")
_SEED = 430
_QUERIES = 2_000
_TOPICS = 10_000

_TOPIC_OPERATIONS = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.ALL,
)
_ASKED = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)

TOPIC_NAMES: tuple[str, ...] = tuple(
    sorted(f"team{team:04d}.topic{number:03d}" for team in range(500) for number in range(20))
)
"""10,000 topics of 500 teams, sorted as a broker keeps them."""


class Query(NamedTuple):
    principal: str
    host: str
    operation: int
    resource_type: int
    name: str


class Shape(NamedTuple):
    name: str
    acls: list[AclBinding]
    queries: list[Query]
    caller: Query
    """Whose authorized operations are asked for."""


def make_shape(name: str) -> Shape:
    kind, size = name.split()
    count = int(size.removesuffix("M")) * 1_000_000 if size.endswith("M") else _thousands(size)
    draw = random.Random(_SEED)
    if kind == "tenant":
        return _tenant(name, count, draw)
    return _hot(name, count, draw) if kind == "hot" else _benchmark(name, draw)


def _thousands(size: str) -> int:
    return int(size.removesuffix("k")) * 1000 if size.endswith("k") else int(size)


def _host(draw: random.Random) -> str:
    return f"10.0.{draw.randrange(4)}.{draw.randrange(250)}"


def _tenant(name: str, count: int, draw: random.Random) -> Shape:
    principals = max(1, count // 20)
    teams = max(1, principals // 10)
    # Names of ever more teams; the topics that are asked for are those of the first 500.
    hosts = [_host(draw) for _ in range(100)]
    acls: dict[AclBinding, None] = {}
    while len(acls) < count:
        number = draw.randrange(principals)
        team = number % teams
        kind = draw.random()
        if kind < 0.6:
            pattern = (ResourceType.TOPIC, f"team{team:04d}.topic{draw.randrange(20):03d}", PatternType.LITERAL)
        elif kind < 0.88:
            suffix = draw.choice(("", ".", ".topic", f".topic{draw.randrange(3)}"))
            pattern = (ResourceType.TOPIC, f"team{team:04d}{suffix}", PatternType.PREFIXED)
        else:
            pattern = (ResourceType.GROUP, f"team{team:04d}.group{draw.randrange(20)}", PatternType.LITERAL)
        acls[
            AclBinding(
                *pattern,
                f"User:user{number}",
                draw.choice(hosts) if draw.random() < 0.1 else "*",
                draw.choice(_TOPIC_OPERATIONS),
                AclPermissionType.DENY if draw.random() < 0.05 else AclPermissionType.ALLOW,
            )
        ] = None
    queries = []
    for _ in range(_QUERIES):
        number = draw.randrange(principals)
        team = number % teams if draw.random() < 0.8 else draw.randrange(teams)
        queries.append(
            Query(
                f"User:user{number}",
                draw.choice(hosts),
                draw.choice(_ASKED),
                ResourceType.TOPIC,
                f"team{team:04d}.topic{draw.randrange(20):03d}",
            )
        )
    return Shape(name, list(acls), queries, _caller("User:user0"))


def _hot(name: str, count: int, draw: random.Random) -> Shape:
    acls = [
        AclBinding(
            ResourceType.TOPIC,
            "team",
            PatternType.PREFIXED,
            f"User:user{number}",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for number in range(count)
    ]
    queries = [
        Query(
            f"User:user{draw.randrange(count)}",
            _host(draw),
            draw.choice(_ASKED),
            ResourceType.TOPIC,
            draw.choice(TOPIC_NAMES),
        )
        for _ in range(_QUERIES if count < 50_000 else 200)
    ]
    return Shape(name, acls, queries, _caller("User:user1"))


def _benchmark(name: str, draw: random.Random) -> Shape:
    queries = []
    for _ in range(_QUERIES):
        host = f"10.1.{draw.randrange(8)}.{draw.randrange(250)}"
        topic = draw.choice(TOPIC_NAMES)
        queries.append(Query(f"User:user{draw.randrange(12)}", host, draw.choice(_ASKED), ResourceType.TOPIC, topic))
    return Shape(name, list(_benchmark_acls(draw)), queries, _caller("User:user3"))


def _benchmark_acls(draw: random.Random) -> Iterator[AclBinding]:
    for index, topic in enumerate(TOPIC_NAMES):
        for number in range(12):
            yield AclBinding(
                ResourceType.TOPIC,
                topic,
                PatternType.PREFIXED if index % 2 else PatternType.LITERAL,
                f"User:user{number}",
                "*",
                _ASKED[index % 3],
                AclPermissionType.DENY if draw.random() < 0.2 else AclPermissionType.ALLOW,
            )
    for number in range(1000):
        yield AclBinding(
            ResourceType.TOPIC,
            "*",
            PatternType.LITERAL,
            "User:*",
            f"10.1.{number // 250}.{number % 250}",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )


def _caller(principal: str) -> Query:
    return Query(principal, "10.0.9.9", AclOperation.DESCRIBE, ResourceType.TOPIC, "")
