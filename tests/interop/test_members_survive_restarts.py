"""Members of groups of all kinds while brokers are restarted one after the other, and leaders die.

The consumers are librdkafka's (both protocols), the share consumers ours, librdkafka's and Java's, and a streams
application uses Kafka Streams. The checks are those of the history.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.history.clients import Client, HistoryProducer, final_read
from tests.history.cluster import BROKER_SETTINGS, Cluster, Kinds, running_cluster
from tests.history.epochs_check import EpochsCheck
from tests.history.group_clients import GroupMember
from tests.history.groups_check import GroupsCheck
from tests.history.groups_watch import GroupsWatch
from tests.history.owners_check import OwnersCheck
from tests.history.records_check import RecordsCheck
from tests.history.shares_run import GROUP as SHARERS
from tests.history.shares_run import SharesPart
from tests.history.story import create_replicated, kill_leader, restart_one_by_one
from tests.history.streams_run import APPLICATION, OUTPUT, StreamsPart
from tests.history.violations import Violation
from tests.peers.quorums import wait_until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.long,
    pytest.mark.timeout(900),
    # Warnings of the client libraries are not ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

TOPIC = "orders"
ALL = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
PARTITIONS = len(ALL)
GROUPS = {"group-a": "classic", "group-b": "consumer"}
"""The protocols of groups."""
KINDS: dict[str, Kinds] = {
    "ours": (("ours",) * 3, ("ours",)),
    "mixed": (("ours", "kafka", "ours"), ("ours",)),
}


class Load:
    """A producer, and members of each kind of group."""

    def __init__(self, cluster: Cluster, *, seed: int = 1, rate: int = 100) -> None:
        servers, self._servers = cluster.bootstrap_servers, cluster.bootstrap_servers
        self.records, self.groups, self.owners = RecordsCheck(), GroupsCheck(), OwnersCheck()
        kafkas = [broker.name for broker in cluster.brokers if broker.kind == "kafka"]
        self.epochs = EpochsCheck(may_be_stale=bool(kafkas))
        self.shares = SharesPart(
            servers, TOPIC, PARTITIONS, self.records, BROKER_SETTINGS, seed=seed, java_log=cluster.folder
        )
        self.streams = StreamsPart(servers, TOPIC, PARTITIONS, cluster.folder, seed=seed)
        self.watch = GroupsWatch(servers, ["group-b", SHARERS, APPLICATION], self.epochs, name="watch")
        self.producer = HistoryProducer(servers, TOPIC, PARTITIONS, self.records, name="producer", rate=rate, seed=seed)
        self._members: list[Client] = [
            GroupMember(servers, TOPIC, self.groups, self.owners, self.records, group=group, protocol=protocol,
                        name=f"{group}-{number}", seed=seed)
            for group, protocol in GROUPS.items()
            for number in range(2)
        ]  # fmt: skip
        self._members += [*self.shares.members, *self.streams.instances, self.watch]
        self.unsettled: list[Violation] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """In the end wait until the members have nothing left to do."""
        self.shares.prepare()
        for client in (self.producer, *self._members):
            client.start()
        try:
            wait_until(lambda: self.records.count_acknowledged > 0, what="an acknowledgement", timeout_s=30)
            yield
            self.producer.stop()
            self.unsettled = [*self.shares.settle(), *self.streams.settle()]
            time.sleep(1)
            self.watch.describe()
        finally:
            for client in (self.producer, *self._members):
                client.ask_to_stop()
        for client in self._members:
            client.stop()

    def check(self) -> None:
        final_read(self._servers, TOPIC, range(PARTITIONS), self.records, timeout_s=30)
        places = self.records.final_places()
        assert len(places) == self.records.count_acknowledged
        found = [*self.unsettled, *self.records.violations(), *self.groups.violations(), *self.owners.violations()]
        found += [*self.epochs.violations(), *self.streams.judge(places), *self.shares.judge(places, [], [])]
        assert [str(violation) for violation in found][:10] == []
        assert self.owners.count_proven > 0
        assert self.epochs.counts["descriptions with owners"] > 0
        print(self.shares.counts, self.streams.counts)


@pytest.mark.parametrize("kind", KINDS)
def test_members_of_all_kinds_survive_restarts_and_kills(kind: str, tmp_path: Path) -> None:
    with running_cluster(tmp_path, KINDS[kind]) as cluster:
        create_replicated(cluster, TOPIC, ALL)
        create_replicated(cluster, OUTPUT, ALL)
        load = Load(cluster)
        with load.running():
            restart_one_by_one(cluster, [TOPIC])
            for partition in range(PARTITIONS):
                kill_leader(cluster, TOPIC, partition)
        load.check()
