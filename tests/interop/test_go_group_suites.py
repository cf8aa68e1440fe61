"""The tests that franz-go and sarama have of their own groups pass on a cluster of three of our nodes.

franz-go's cover the classic protocol, the new one and share groups; sarama's the classic protocol.
``make ecosystem`` runs them; compiling them takes a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import Cluster
from tests.peers.go import go_suite, run_suite
from tests.peers.sarama_suite import SaramaSuite

pytestmark = [pytest.mark.interop, pytest.mark.ecosystem, pytest.mark.long, pytest.mark.timeout(900)]

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "8"}
FRANZ = {
    "Test848RegexBrokerResolves",
    "TestConsumeRegexShareSkipsInternal",
    "TestGroupETL",
    "TestGroupSimple",
    "TestShareGroup",
    "TestShareGroupOffsetsAdmin",
}
FRANZ_SKIPS = {
    "TestIssueProduceBrokerTooOldFailsRecords",  # For brokers without Produce 3.
    "TestOAuthAuth",  # These need users, and listeners with SASL.
    "TestSCRAMAuth",
    "TestSCRAMAuthBadCredentials",
}
SARAMA_AT_LEAST = {
    "TestFuncAdminListConsumerGroupOffsets",  # Stops the coordinator and starts it again.
    "TestFuncConsumerGroupOffsetDeletion",
    "TestFuncConsumerGroupPartitioning",
    "TestFuncConsumerGroupStaticMembership_Basic",
}
SARAMA_OF_GROUPS = "Group|Coordinator|OffsetManager"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, settings=SETTINGS) as cluster:
        yield cluster
        faults = {broker.node_id: broker.log.partition("Traceback")[2][:4000] for broker in cluster.brokers}
        assert not any(faults.values()), faults


@pytest.fixture(scope="module")
def franz() -> Path:
    return go_suite("kgo", "github.com/twmb/franz-go", "pkg/kgo")


@pytest.fixture(scope="module")
def sarama(tmp_path_factory: pytest.TempPathFactory) -> SaramaSuite:
    return SaramaSuite(tmp_path_factory.mktemp("sarama"))


def environment(cluster: Cluster, records: int) -> dict[str, str]:
    return {
        "KGO_SEEDS": cluster.bootstrap_servers,
        "KGO_TEST_RF": "3",
        "KGO_TEST_RECORDS": str(records),
        "KGO_LOG_LEVEL": "none",
    }


def test_all_tests_of_franz_go_pass(cluster: Cluster, franz: Path) -> None:
    outcomes = run_suite(franz, ".", environment(cluster, 100_000), timeout_s=840)
    assert outcomes.is_passed, outcomes.printed
    assert outcomes.skipped == FRANZ_SKIPS
    assert outcomes.passed > FRANZ


def test_all_tests_of_groups_of_sarama_pass(cluster: Cluster, sarama: SaramaSuite) -> None:
    outcomes = sarama.run(cluster, SARAMA_OF_GROUPS, timeout_s=600)
    assert outcomes.is_passed, outcomes.printed
    # It runs Java's clients in its own containers.
    assert {name for name in outcomes.skipped if "Java" not in name} == set()
    assert outcomes.passed > SARAMA_AT_LEAST
