"""Java's transactional producers and readers of committed records work with our nodes as with Kafka: 4.3 and 3.9."""

from __future__ import annotations

import pytest

from barnabas.testing import Cluster, Node
from tests.peers import peer_lib
from tests.peers.java import run_source

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

COUNT = 2000
FENCED = {"4.3": "InvalidProducerEpochException", "3.9": "ProducerFencedException"}
"""What the fenced producer is told, as with Kafka."""


def outcome(bootstrap: str, version: str) -> dict[str, str]:
    lib = peer_lib("3.9.1") if version == "3.9" else None
    output = run_source("Transactions", bootstrap, "in", "out", str(COUNT), "100", lib=lib)
    return dict(line.split(": ", 1) for line in output.splitlines() if ": " in line)


@pytest.mark.parametrize(("brokers", "version"), [(1, "3.9"), (3, "4.3")])
def test_a_topic_is_copied_exactly_once(brokers: int, version: str) -> None:
    topics = {"in": 3, "out": 4}
    with Node(topics=topics) if brokers == 1 else Cluster(brokers, topics=topics) as kafka:
        kafka.produce("in", [f"{number}" for number in range(COUNT)])
        seen = outcome(kafka.bootstrap_servers, version)
    assert seen["copied"].startswith(f"{COUNT} in ")
    assert seen["fenced"] == FENCED[version]
    assert seen["committed"] == str(COUNT)
    assert seen["uncommitted has the open record"] == "true"
    assert seen["distinct"] == f"{COUNT} of {COUNT}"
    assert seen["rapid"] == "40"
    assert sorted(seen["listed"].strip("[]").split(", ")) == ["copier CompleteAbort", "rapid CompleteCommit"]
    assert seen["described"] == "CompleteAbort"
