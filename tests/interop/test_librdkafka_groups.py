"""librdkafka's own tests of consumers pass with both group protocols, and those of share consumers, on a cluster of
three of our nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import Cluster
from tests.peers.librdkafka_suite import LibrdkafkaSuite

pytestmark = [pytest.mark.interop, pytest.mark.ecosystem, pytest.mark.long, pytest.mark.timeout(1800)]

OF_THE_NEW_PROTOCOL = {
    "0014": "a topic is read again",
    "0015": "seeks",
    "0018": "members that end while others read",
    "0019": "groups are listed",
    "0022": "batches",
    "0026": "partitions pause",
    "0029": "offsets of an assignment",
    "0030": "commits, with callbacks and without, of stored and of given offsets",
    "0031": "first and last offsets",
    "0033": "subscriptions to expressions",
    "0034": "resets of offsets",
    "0040": "events of queues",
    "0041": "sizes of fetches",
    "0045": "topics that appear, and partitions that are added",
    "0050": "topics are added to a subscription",
    "0051": "topics are added to an assignment",
    "0056": "balanced groups in threads",
    "0060": "the priority of operations",
    "0069": "partitions are added",
    "0089": "members that poll too rarely",
    "0091": "limits of the time between polls",
    "0093": "a partition that is not read blocks no other",
    "0099": "metadata of commits",
    "0102": "static members",
    "0112": "partitions that do not exist",
    "0118": "commits during a rebalance",
    "0122": "records of partitions that were taken",
    "0130": "offsets are stored for a later commit",
    "0137": "batches and rebalances",
    "0140": "metadata of commits is kept",
}
OF_THE_CLASSIC_PROTOCOL = {
    "0019": "groups are listed",
    "0029": "offsets of an assignment",
    "0030": "commits, with callbacks and without, of stored and of given offsets",
    "0089": "members that poll too rarely",
    "0102": "static members",
    "0118": "commits during a rebalance",
    "0130": "offsets are stored for a later commit",
    "0132": "assignors in order of preference",
}
OF_SHARE_CONSUMERS = {
    "0170": "subscriptions",
    "0172": "acknowledgements",
    "0173": "commits that are not awaited",
    "0175": "many groups",
    "0176": "commits that are awaited",
    "0178": "the end of a consumer",
    "0179": "a consumer without an end",
    "0180": "settings",
    "0181": "topics that are deleted",
    "0184": "topics that are created again",
}
LIMIT_S = 1500
SETTINGS = {
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
}
"""What the suite expects of its own clusters, with heartbeats that make it quicker."""


@pytest.fixture(scope="module")
def suite() -> LibrdkafkaSuite:
    return LibrdkafkaSuite()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, settings=SETTINGS) as cluster:
        yield cluster


def run(suite: LibrdkafkaSuite, cluster: Cluster, number: str, protocol: str, folder: Path) -> None:
    outcome = suite.run(number, cluster.bootstrap_servers, folder, timeout_s=LIMIT_S, protocol=protocol)
    assert outcome.is_passed, outcome.printed
    assert not [broker.log for broker in cluster.brokers if "Traceback" in broker.log]


@pytest.mark.parametrize("number", OF_THE_NEW_PROTOCOL)
def test_a_test_passes_with_the_new_protocol(
    suite: LibrdkafkaSuite, cluster: Cluster, number: str, tmp_path: Path
) -> None:
    run(suite, cluster, number, "consumer", tmp_path)


@pytest.mark.parametrize("number", OF_THE_CLASSIC_PROTOCOL)
def test_a_test_passes_with_the_classic_protocol(
    suite: LibrdkafkaSuite, cluster: Cluster, number: str, tmp_path: Path
) -> None:
    run(suite, cluster, number, "classic", tmp_path)


@pytest.mark.parametrize("number", OF_SHARE_CONSUMERS)
def test_a_test_of_share_consumers_passes(
    suite: LibrdkafkaSuite, cluster: Cluster, number: str, tmp_path: Path
) -> None:
    run(suite, cluster, number, "consumer", tmp_path)
