"""One run: a cluster, clients that record histories, planned faults, recovery, and the results of the checks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.history import shares_run, streams_run, transactions_run
from tests.history.admin_client import HistoryAdmin
from tests.history.clients import CLIENT_SETTINGS, RECORD_BYTES, Client, HistoryProducer, HistoryReader, final_read
from tests.history.cluster import BROKER_SETTINGS, KINDS, SETTINGS, Cluster
from tests.history.cpu_watch import CpuWatch
from tests.history.epochs_check import EpochsCheck
from tests.history.fault_injector import FaultInjector
from tests.history.faults import Abilities, plan
from tests.history.group_clients import CommittedOffsetsReader, GroupMember, committed_offsets
from tests.history.groups_check import GroupsCheck
from tests.history.groups_watch import GroupsWatch
from tests.history.hang_check import (
    EVERYTHING,
    Impairment,
    blindness,
    endless_stalls,
    unexplained_fencings,
    unexplained_stalls,
)
from tests.history.log_files import all_named, batch_at, compare_topics, read_batches
from tests.history.metadata_watch import MetadataWatch
from tests.history.owners_check import OwnersCheck
from tests.history.records_check import RecordsCheck
from tests.history.register_check import Read
from tests.history.sequences_check import check_sequences, is_another_epoch
from tests.history.shares_run import GROUP as SHARERS
from tests.history.shares_run import STATE_TOPIC, SharesPart
from tests.history.stall_probe import StallProbe
from tests.history.story import high_watermarks
from tests.history.streams_run import APPLICATION, OUTPUT, StreamsPart
from tests.history.transactions_run import LEDGER_PARTITIONS, TOPICS, TransactionsPart
from tests.history.violations import Broken, Violation

__all__ = ["Options", "Report", "run_history"]

TOPIC = "history"
PARTITIONS = 4
GROUPS = {"group-a": "classic", "group-b": "consumer"}
"""The protocols of groups."""
SEVERAL, ONE = "several-in-flight", "one-in-flight"
PRODUCERS = {SEVERAL: 5, ONE: 1}
"""The maximum number of requests in flight, by producer name."""
_HEALTHY_WITHIN_S = 120.0
_TOO_FEW = "too few replicas"
STALL_SLACK_S = 1.0
"""Beyond the session time-out, which the controller counts from the last heartbeat that it received."""


@dataclass(frozen=True, slots=True)
class Options:
    seed: int = 1
    seconds: float = 60.0
    kind: str = "ours"
    rate: int = 200
    """Records a second, of each producer."""
    disks: bool = True
    clocks: bool = True
    transactions: bool = True
    shares: bool = True
    """Members of a share group work on the topic."""
    java: bool = False
    """One Java client copies in transactions, others are members of the share group, and a streams application runs."""

    @property
    def written_megabytes(self) -> int:
        """The maximum for each broker: a producer may have drawn no compression."""
        rate = len(PRODUCERS) * self.rate * (RECORD_BYTES + 70) / 1_000_000
        rate += transactions_run.MEGABYTES_A_SECOND if self.transactions else 0
        rate += shares_run.MEGABYTES_A_SECOND if self.shares else 0
        rate += streams_run.MEGABYTES_A_SECOND if self.java else 0
        return int(self.seconds * rate)

    @property
    def topics(self) -> dict[str, int]:
        """The number of partitions, by name."""
        transactional = dict.fromkeys(TOPICS, LEDGER_PARTITIONS) if self.transactions else {}
        return {TOPIC: PARTITIONS} | transactional | ({OUTPUT: PARTITIONS} if self.java else {})

    @property
    def internal_topics(self) -> list[str]:
        """The internal topics that the clients need."""
        found = ["__consumer_offsets"]
        found += ["__transaction_state"] if self.transactions or self.java else []
        return found + ([STATE_TOPIC] if self.shares else [])

    @property
    def groups_with_epochs(self) -> list[str]:
        found = [group for group, protocol in GROUPS.items() if protocol == "consumer"]
        return found + ([SHARERS] if self.shares else []) + ([APPLICATION] if self.java else [])


@dataclass(slots=True)
class Report:
    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    """The faults as they were injected."""


class _Run:
    def __init__(self, cluster: Cluster, options: Options, say: Callable[[str], None]) -> None:
        self._cluster, self._options, self._say = cluster, options, say
        self._records, self._groups = RecordsCheck(_ids_of_kafka(cluster)), GroupsCheck()
        self._owners, self._epochs = OwnersCheck(), EpochsCheck(may_be_stale=bool(_ids_of_kafka(cluster)))
        self._groups_watch = GroupsWatch(
            cluster.bootstrap_servers, options.groups_with_epochs, self._epochs, name="groups-watch"
        )
        self._watch = MetadataWatch([controller.data for controller in cluster.controllers])
        self._cpu = CpuWatch(cluster.nodes)
        self._probe = StallProbe(cluster.bootstrap_servers, TOPIC, PARTITIONS, self._records, name="probe")
        self._admin_client = AdminClient({**CLIENT_SETTINGS, "bootstrap.servers": cluster.bootstrap_servers})
        self._shares, self._streams = self._parts_of_groups()
        self._part = None
        if options.transactions:
            racks = [broker.name for broker in cluster.brokers]
            java_log = cluster.folder if options.java else None
            self._part = TransactionsPart(cluster.bootstrap_servers, seed=options.seed, racks=racks, java_log=java_log)
        self._impairments: list[Impairment] = []
        self.report = Report()

    def _parts_of_groups(self) -> tuple[SharesPart | None, StreamsPart | None]:
        servers, seed, folder = self._cluster.bootstrap_servers, self._options.seed, self._cluster.folder
        shares = streams = None
        if self._options.shares:
            shares = SharesPart(
                servers, TOPIC, PARTITIONS, self._records, BROKER_SETTINGS, seed=seed,
                java_log=folder if self._options.java else None,
            )  # fmt: skip
        if self._options.java:
            streams = StreamsPart(servers, TOPIC, PARTITIONS, folder, seed=seed)
        return shares, streams

    def clients(self) -> tuple[list[Client], list[Client], HistoryAdmin]:
        """The producers, the readers and the admin client."""
        servers, seed, rate = self._cluster.bootstrap_servers, self._options.seed, self._options.rate
        producers: list[Client] = [
            HistoryProducer(servers, TOPIC, PARTITIONS, self._records, name=f"{name}-{number}", rate=rate, seed=seed,
                            in_flight=in_flight)
            for number, (name, in_flight) in enumerate(PRODUCERS.items())
        ]  # fmt: skip
        readers: list[Client] = [
            HistoryReader(servers, TOPIC, PARTITIONS, self._records, name=f"reader-{jumps}", seed=seed, jumps=jumps)
            for jumps in (False, True)
        ]
        members: list[Client] = [
            GroupMember(servers, TOPIC, self._groups, self._owners, self._records, group=group, protocol=protocol,
                        name=f"{group}-{number}", seed=seed)
            for group, protocol in GROUPS.items()
            for number in range(2)
        ]  # fmt: skip
        asker = CommittedOffsetsReader(servers, TOPIC, PARTITIONS, self._groups, of=list(GROUPS), name="asker")
        readers += [*members, asker, self._groups_watch]
        readers += self._shares.members if self._shares else []
        readers += self._streams.instances if self._streams else []
        if self._part is not None:
            producers += self._part.producers
            readers += self._part.readers
        return producers, readers, HistoryAdmin(servers, TOPIC, name="admin", seed=seed)

    def go(self) -> None:
        self._create_topics()
        if self._shares:
            self._shares.prepare()
        abilities = Abilities(
            disks=all(broker.disk for broker in self._cluster.brokers),
            clocks=all(node.clock for node in self._cluster.nodes),
        )
        names = [[node.name for node in nodes] for nodes in (self._cluster.brokers, self._cluster.controllers)]
        tracks = plan(self._options.seed, self._options.seconds, names[0], names[1], abilities)
        injector = FaultInjector(self._cluster, self._options.topics, seed=self._options.seed)
        producers, readers, admin = self.clients()
        for client in (*producers, *readers, admin, self._probe):
            client.start()
        self._say(f"faults begin at {time.monotonic():.1f} s of the clock")
        try:
            with self._watch, self._cpu:
                time.sleep(1)
                injector.run(tracks, self._options.seconds)
        finally:
            self.report.log = injector.log
            self.report.counts.update({f"fault {name}": count for name, count in injector.counts.items()})
            self.report.counts["largest delay of a fault, s"] = round(injector.latest_s)
        self._heal(injector)
        time.sleep(3)  # The stalls of records that no fault disturbs any longer.
        self._end([admin, *producers, self._probe])
        self._settle_groups()
        self._end(readers)
        self._count(producers, readers, admin)
        self._judge_hangs(injector.impairments)
        try:
            self._judge(admin)
        except KafkaException as error:
            self.report.violations.append(Violation(Broken.STUCK, f"nothing can be read in the end: {error}"))

    def _end(self, clients: list[Client]) -> None:
        for client in clients:
            client.ask_to_stop()
        for client in clients:
            try:
                client.stop()
            except AssertionError as error:
                self.report.violations.append(Violation(Broken.STUCK, str(error)))

    def _settle_groups(self) -> None:
        """Wait until share groups and streams applications have nothing left to do."""
        self._say("waiting for the groups to finish")
        for part in (self._shares, self._streams):
            self.report.violations += part.settle() if part else []
        time.sleep(1)
        self._groups_watch.describe()

    def _create_topics(self) -> None:
        config = {"min.insync.replicas": "2", "retention.ms": "-1", "retention.bytes": "-1"}
        topics = [NewTopic(name, partitions, 3, config=config) for name, partitions in self._options.topics.items()]
        for created in self._admin_client.create_topics(topics, operation_timeout=30).values():
            created.result(40)

    def _heal(self, injector: FaultInjector) -> None:
        self._say("healing")
        began = time.monotonic()
        self._cluster.proxy.heal_all()
        for node in self._cluster.nodes:
            if node.clock is not None:
                node.clock.set_offset(0)
            if node.disk is not None:
                node.disk.free()
            node.thaw()
            if not node.is_running:
                injector.bring_up(node)
        sick = self._sick()
        while sick and time.monotonic() - began < _HEALTHY_WITHIN_S:
            if _TOO_FEW in sick:
                injector.give_back_replicas()
            time.sleep(0.5)
            sick = self._sick()
        self.report.counts["seconds until healthy"] = round(time.monotonic() - began)
        if sick:
            self.report.violations.append(Violation(Broken.STUCK, f"after {_HEALTHY_WITHIN_S:.0f} s: {sick}"))

    def _sick(self) -> str:
        """Return what is wrong in the end; empty if everything is healthy."""
        stopped = [node.name for node in self._cluster.nodes if not node.is_running]
        if stopped:
            return f"{', '.join(stopped)} not running"
        try:
            topics = self._admin_client.list_topics(timeout=5).topics
        except KafkaException as error:
            return f"no metadata: {error}"
        for name in (*self._options.topics, *self._options.internal_topics):
            if name not in topics:
                return f"no topic {name}"
            for number, partition in topics[name].partitions.items():
                if len(partition.replicas) < 3:
                    return f"{name}-{number}: {_TOO_FEW}: {partition.replicas}"
                if len(partition.replicas) != 3 or len(partition.isrs) != 3 or partition.leader < 0:
                    return (
                        f"{name}-{number}: leader {partition.leader}, replicas {partition.replicas},"
                        f" in sync {partition.isrs}"
                    )
        return ""

    def _count(self, producers: list[Client], readers: list[Client], admin: HistoryAdmin) -> None:
        for kind, clients in (("producers", producers), ("readers", readers), ("admin", [admin])):
            for client in clients:
                for what, count in client.counts.items():
                    name = what if what.startswith("transactions") else f"{kind}: {what}"
                    both = (self.report.counts[name], count)
                    self.report.counts[name] = max(both) if "longest" in what else sum(both)

    def _judge_hangs(self, done: list[Impairment]) -> None:
        """Judge fencings of our brokers, and stalls if all nodes are ours. Kafka's nodes guarantee less
        (docs/history.md)."""
        starved = [Impairment((EVERYTHING,), from_s, to_s) for from_s, to_s in self._watch.starved_s]
        fencings, counts = self._watch.fencings(), self.report.counts
        counts["fencings"], counts["longest stall, ms"] = len(fencings), self._probe.counts["longest stall, ms"]
        starved += [Impairment((EVERYTHING,), from_s, to_s) for _, from_s, to_s in self._cpu.starved]
        counts["half seconds without CPU, of one node"] = len(starved)
        starved += [Impairment((EVERYTHING,), from_s, to_s) for from_s, to_s in self._judge_the_proxy()]
        self._impairments = impairments = [*done, *starved]
        session_s = int(SETTINGS["broker.session.timeout.ms"]) / 1000
        ours = [broker.name for broker in self._cluster.brokers if broker.kind == "ours"]
        found = unexplained_fencings(fencings, impairments, brokers=ours, session_s=session_s)
        if all(node.kind == "ours" for node in self._cluster.nodes):
            heartbeat_s = int(SETTINGS["broker.heartbeat.interval.ms"]) / 1000
            limit_s = session_s + heartbeat_s + STALL_SLACK_S
            self.report.log += [str(stall) for stall in self._probe.stalls if stall.lasted_s > limit_s]
            found += unexplained_stalls(self._probe.stalls, impairments, limit_s=limit_s)
        self.report.violations += [*found, *endless_stalls(self._probe.stalls)]

    def _judge_the_proxy(self) -> list[tuple[float, float]]:
        """Return when the proxy stood still; no node is blamed for these times."""
        standstills = self._cluster.proxy.standstills()
        lasted_ms = [int((to_s - from_s) * 1000) for from_s, to_s in standstills]
        self.report.counts["standstills of the proxy, ms in all"] = sum(lasted_ms)
        self.report.counts["longest standstill of the proxy, ms"] = max(lasted_ms, default=0)
        self.report.log += [f"the proxy stood still from {from_s:.1f} to {to_s:.1f} s" for from_s, to_s in standstills]
        self.report.violations += blindness(standstills)
        return standstills

    def _judge(self, admin: HistoryAdmin) -> None:
        self._say("reading everything again")
        found, counts = self.report.violations, self.report.counts
        servers, partitions = self._cluster.bootstrap_servers, range(PARTITIONS)
        counts["records in the end"] = final_read(servers, TOPIC, partitions, self._records, timeout_s=30)
        found += self._records.violations()
        stale = self._records.refused_by_stale_leaders()
        counts["readers: a stale Kafka leader reported an existing offset as out of range"] = len(stale)
        self.report.log += stale
        for group in GROUPS:
            began = time.monotonic()
            for partition, offset in committed_offsets(servers, group, TOPIC, PARTITIONS).items():
                self._groups.final(group, partition, Read(offset, began, time.monotonic(), "the final read"))
        found += self._groups.violations()
        counts["commits"], counts["reads of committed offsets"] = self._groups.count_commits, self._groups.count_reads
        found += self._owners.violations()
        counts["proven ownerships of partitions"] = self._owners.count_proven
        self._judge_groups()
        found += admin.read_in_the_end()
        if self._part is not None:
            self._part.settle(self._say)
        self._say("comparing the logs of the replicas")
        # While one broker after the other stops, coordinators may still write: members that were killed time out.
        ends = high_watermarks(self._cluster.bootstrap_servers, self._options.internal_topics)
        for broker in self._cluster.brokers:
            broker.stop()
        folders = {broker.name: broker.data for broker in self._cluster.brokers}
        [first, *_] = folders.values()
        self.report.violations = self._confirmed_by_the_logs(found, first)
        counts["batches compared"], unequal = compare_topics(folders, all_named(self._options.topics), ends=ends)
        self.report.violations += unequal
        if self._part is not None:
            self.report.violations += self._part.judge(first)
            counts += self._part.counts

    def _judge_groups(self) -> None:
        """Judge the groups that the coordinators assign to: of consumers, shares and streams."""
        places = self._records.final_places()
        self.report.violations += self._epochs.violations()
        self.report.counts.update({f"groups: {what}": count for what, count in self._epochs.counts.items()})
        if self._shares:
            kafkas = [broker.name for broker in self._cluster.brokers if broker.kind == "kafka"]
            self.report.violations += self._shares.judge(places, self._impairments, kafkas)
            self.report.counts.update({f"shares: {what}": count for what, count in self._shares.counts.items()})
        if self._streams:
            self.report.violations += self._streams.judge(places)
            self.report.counts.update({f"streams: {what}": count for what, count in self._streams.counts.items()})

    def _confirmed_by_the_logs(self, found: list[Violation], folder: Path) -> list[Violation]:
        """Return the violations that the logs confirm, with the writers of the batches, and those that the logs add
        about producers."""
        logs = {number: read_batches(folder / f"{TOPIC}-{number}") for number in range(PARTITIONS)}
        stands: list[Violation] = []
        for violation in found:
            if violation.broken is Broken.DOUBLED and violation.producer.startswith(SEVERAL):
                [(partition, first), (_, second)] = violation.places
                if is_another_epoch(logs[partition], first, second):
                    self.report.counts["records that their client wrote again in a new epoch"] += 1
                    continue
            written = "; ".join(batch_at(folder / f"{TOPIC}-{partition}", at) for partition, at in violation.places)
            stands.append(replace(violation, what=f"{violation.what} ({written})") if written else violation)
        for number, batches in logs.items():
            stands += check_sequences(f"{TOPIC}-{number}", batches)
        return stands


def _ids_of_kafka(cluster: Cluster) -> list[int]:
    return [broker.node_id for broker in cluster.brokers if broker.kind == "kafka"]


def run_history(folder: Path, options: Options, say: Callable[[str], None] = lambda text: None) -> Report:
    """``folder`` keeps the output of the nodes; ``say`` receives progress messages."""
    cluster = Cluster(folder, KINDS[options.kind])
    try:
        clocks = options.clocks and cluster.give_clocks()
        disks = options.disks and cluster.give_small_disks(options.written_megabytes)
        say(f"clocks {'jump' if clocks else 'stay'}, disks {'may be full' if disks else 'are large'}")
        cluster.format()
        cluster.start()
        say("the cluster is up")
        run = _Run(cluster, options, say)
        run.go()
        return run.report
    finally:
        cluster.end()
