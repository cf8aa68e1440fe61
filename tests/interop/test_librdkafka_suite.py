"""librdkafka's own tests of transactions and idempotence pass on a cluster of three of our nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import Cluster
from tests.peers import lacking
from tests.peers.librdkafka_suite import LibrdkafkaSuite

pytestmark = [pytest.mark.interop, pytest.mark.ecosystem, pytest.mark.long, pytest.mark.timeout(2400)]

TESTS = {
    "0061": "consumer lag, with transactions too",
    "0086": "messages that are purged from an idempotent producer",
    "0090": "idempotence",
    "0094": "messages that time out in an idempotent producer",
    "0098": "readers of committed records beside Java's producer",
    "0103": "transactions",
    "0129": "aborted transactions in a fetch",
}
LIMIT_S = 600
SETTINGS = {"num.partitions": "4", "group.initial.rebalance.delay.ms": "3000"}
"""What the suite expects: the number of its own clusters, and Kafka's default."""


@pytest.fixture(scope="module")
def suite() -> LibrdkafkaSuite:
    return LibrdkafkaSuite()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, settings=SETTINGS) as cluster:
        yield cluster


@pytest.mark.parametrize("number", TESTS)
def test_it_passes(suite: LibrdkafkaSuite, cluster: Cluster, number: str, tmp_path: Path) -> None:
    outcome = suite.run(number, cluster.bootstrap_servers, tmp_path, timeout_s=LIMIT_S)
    if outcome.skipped is not None:
        lacking(f"librdkafka skips its test: {outcome.skipped}")  # 0098 needs RapidJSON when it is built.
    assert outcome.is_passed, outcome.printed
    assert not [broker.log for broker in cluster.brokers if "Traceback" in broker.log]
