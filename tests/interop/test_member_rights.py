"""``barnabas access needs`` names the least rights: members of each kind work with them on a real Kafka, no less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from barnabas.access.needs import Need, consumer_needs, share_consumer_needs, streams_needs
from barnabas.clients.admin import AclBinding, AclBindingFilter, AdminClient, SyncAdminClient
from barnabas.common.acl import AclPermissionType
from barnabas.common.resource import PatternType
from tests.peers.commands import Run, runner
from tests.peers.kinds import KAFKA
from tests.peers.quorums import wait_until
from tests.peers.secure import SecureNode
from tests.peers.secure_kinds import running_kind, sasl_properties, write_properties
from tests.peers.streams_application import StreamsApplication

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300), pytest.mark.usefixtures("kafka_peer")]

INPUTS = ("lines", "customers", "orders", "views", "clicks")
OUTPUTS = ("counts", "named-orders", "pairs")
CONSUMER = consumer_needs("readers", topics=["orders"])
MATCHING = consumer_needs("matchers", topic_prefixes=["ord"])
SHARE = share_consumer_needs("workers", topics=["orders"])
STREAMS = streams_needs("application", read_topics=INPUTS, topics=OUTPUTS, is_exactly_once=True)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    with running_kind(KAFKA, tmp_path_factory.mktemp("rights")) as node:
        yield node


@pytest.fixture(scope="module")
def admin(peer: SecureNode) -> Iterator[SyncAdminClient]:
    with AdminClient.sync(peer.bootstrap("PLAINTEXT")) as client:
        yield client


@pytest.fixture
def run(peer: SecureNode, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(peer.bootstrap, capsys)


@pytest.fixture(scope="module", autouse=True)
def _topics(admin: SyncAdminClient) -> None:
    from barnabas.clients.admin import NewTopic

    admin.create_topics([NewTopic(name, 1, 1) for name in (*INPUTS, *OUTPUTS)]).raise_for_errors()


@pytest.fixture
def alice(peer: SecureNode, tmp_path: Path) -> tuple[str, ...]:
    """The options with which a command acts as alice."""
    path = write_properties(tmp_path / "alice.properties", sasl_properties(peer, "alice"))
    return ("--command-config", path)


def grant(admin: SyncAdminClient, needs: Sequence[Need]) -> None:
    """Give alice these rights, and no others. Kafka's broker has them a moment after the answer."""
    hers = AclBindingFilter(principal="User:alice")
    admin.delete_acls([hers])
    rules = [
        AclBinding(
            need.resource.type, need.resource.name, PatternType.PREFIXED if need.is_prefixed else PatternType.LITERAL,
            "User:alice", "*", need.operation, AclPermissionType.ALLOW,
        )
        for need in needs
    ]  # fmt: skip
    if rules:
        admin.create_acls(rules).raise_for_errors()
    wait_until(lambda: set(admin.describe_acls(hers)) == set(rules), what="alice has exactly these rights")


def without_each(needs: Sequence[Need]) -> list[Need | None]:
    return [None, *needs]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("left_out", without_each(CONSUMER), ids=str)
def test_a_consumer_works_with_these_rights_and_no_less(
    run: Run, admin: SyncAdminClient, alice: tuple[str, ...], protocol: str, left_out: Need | None
) -> None:
    grant(admin, [need for need in CONSUMER if need != left_out])
    options = ("--group", "readers", "--group-protocol", protocol, "-e", "-q")
    done = run("consume", "orders", *options, *alice, server="SASL_SSL")
    assert (done.status == 0) == (left_out is None), done.err
    assert left_out is None or "AUTHORIZATION_FAILED" in done.err


@pytest.mark.parametrize("left_out", without_each(MATCHING), ids=str)
def test_a_consumer_that_matches_topics_works_with_these_rights(
    run: Run, admin: SyncAdminClient, alice: tuple[str, ...], left_out: Need | None
) -> None:
    run("produce", "orders", "--file", __file__, "--whole", "-q")
    grant(admin, [need for need in MATCHING if need != left_out])
    group = f"matchers{'' if left_out is None else '-2'}"
    options = ["--group", group, "--from-beginning", "-n", "1", "-q"]
    if left_out is MATCHING[1]:
        grant(admin, consumer_needs(group))
        options += ["--timeout-ms", "3000"]
    done = run("consume", "--include", "ord.*", *options, *alice, server="SASL_SSL")
    # Without a right on the topic nothing matches, and that is not an error.
    assert (done.out != "") == (left_out is None), done.err
    assert (done.status == 0) == (left_out is not MATCHING[0]), done.err


@pytest.mark.parametrize("left_out", without_each(SHARE), ids=str)
def test_a_share_consumer_works_with_these_rights_and_no_less(
    run: Run, admin: SyncAdminClient, alice: tuple[str, ...], left_out: Need | None
) -> None:
    grant(admin, [need for need in SHARE if need != left_out])
    options = ("--group", "workers", "--accept", "--wait", "3s", "-q")
    done = run("queue", "receive", "orders", *options, *alice, server="SASL_SSL")
    assert (done.status == 0) == (left_out is None), done.err
    assert left_out is None or "AUTHORIZATION_FAILED" in done.err


@pytest.mark.ecosystem
def test_a_streams_application_works_with_these_rights_and_is_shown(
    run: Run, peer: SecureNode, admin: SyncAdminClient, tmp_path: Path
) -> None:
    grant(admin, STREAMS)
    settings = {**sasl_properties(peer, "alice"), "group.protocol": "streams", "commit.interval.ms": "100"}
    application = StreamsApplication(tmp_path, peer.bootstrap("SASL_SSL"), settings)
    application.start(timeout_s=150)
    try:
        run("produce", "lines", "--file", __file__, "-q")
        counted = run("consume", "counts", "--from-beginning", "-n", "100", "--timeout-ms", "60000", "-q")
        assert len(counted.out.splitlines()) == 100
        assert application.failures() == []
        (group,) = run("groups", "describe", "application", "-o", "json").document["groups"]
        assert (group["type"], group["state"]) == ("streams", "Stable")
        active = {task for member in group["members"] for task in member["tasks"]["active"]}
        parts = {part["subtopology"] for part in group["topology"]["subtopologies"]}
        assert {task.partition("_")[0] for task in active} == parts
        assert all(member["protocol"] == "streams" for member in group["members"])
        committed = {place["topic"]: place for place in group["offsets"]}
        assert set(INPUTS) <= {topic for part in group["topology"]["subtopologies"] for topic in part["source_topics"]}
        assert committed["lines"]["member_id"] in {member["member_id"] for member in group["members"]}
        table = run("groups", "describe", "application", "--topology").out
        assert "application-words-repartition" in table
        explained = run("access", "explain", "--principal", "User:alice", "--streams", "application",
                        "--read-topics", ",".join(INPUTS), "--topics", ",".join(OUTPUTS), "--exactly-once")  # fmt: skip
        assert explained.status == 0, explained.out
    finally:
        application.stop()
