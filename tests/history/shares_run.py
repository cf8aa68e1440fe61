"""The part of a run with a share group: its members, the wait until it has settled everything, and the checks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from barnabas.clients.admin import AdminError, AlterConfigOp, ConfigResource, ConfigResourceType, SyncAdminClient
from barnabas.clients.errors import ClientError
from barnabas.common.topic_partition import TopicPartition
from tests.history.clients import Client
from tests.history.hang_check import EVERYTHING, Impairment
from tests.history.records_check import RecordsCheck
from tests.history.share_members import JavaShareMembers, LibrdkafkaShareMember, OurShareMember, Reports
from tests.history.shares_check import SharesCheck
from tests.history.violations import Broken, Violation

__all__ = ["GROUP", "MEGABYTES_A_SECOND", "STATE_TOPIC", "SharesPart"]

GROUP = "sharers"
STATE_TOPIC = "__share_group_state"
MEGABYTES_A_SECOND = 0.2
"""What a broker writes of the state of share-partitions at most."""
_SETTLED_WITHIN_S = 150.0
_JAVA_MEMBERS = 2
_STALE_S = 10.0
"""How long a broker that was disturbed may still serve what others lead: it registers again, or loses its session."""


class SharesPart:
    """``settings``: of the brokers. ``java_log``: the folder for the output of Java clients, if these shall run."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, records: RecordsCheck, settings: Mapping[str, str],
        *, seed: int, java_log: Path | None,
    ) -> None:  # fmt: skip
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self._check = SharesCheck(delivery_count_limit=int(settings["group.share.delivery.count.limit"]))
        lock_s = int(settings["group.share.record.lock.duration.ms"]) / 1000
        reports = Reports(GROUP, self._check, records)
        self.members: list[Client] = [
            *(OurShareMember(bootstrap, topic, reports, name=f"ours-{number}", seed=seed, lock_s=lock_s)
              for number in range(2)),
            LibrdkafkaShareMember(bootstrap, topic, reports, name="librdkafka", seed=seed, lock_s=lock_s),
        ]  # fmt: skip
        self._java: list[JavaShareMembers] = []
        if java_log is not None:
            java = JavaShareMembers(
                bootstrap, topic, reports, java_log, members=_JAVA_MEMBERS, seed=seed, lock_s=lock_s
            )
            self._java.append(java)
        self.members += self._java
        self.counts: Counter[str] = Counter()

    def prepare(self) -> None:
        """Let the group begin with the first record."""
        earliest = AlterConfigOp("share.auto.offset.reset", "earliest")
        group = ConfigResource(ConfigResourceType.GROUP, GROUP)
        with SyncAdminClient(self._bootstrap) as admin:
            admin.incremental_alter_configs({group: [earliest]}, wait=True).raise_for_errors()

    def settle(self) -> list[Violation]:
        """Wait until the members have nothing left to do, while no record is written."""
        for members in self._java:
            members.let_live()
        began_s = time.monotonic()
        while (lags := self._lags()) != [0] * self._partitions:
            if time.monotonic() - began_s > _SETTLED_WITHIN_S:
                what = f"{GROUP} has not settled everything after {_SETTLED_WITHIN_S:.0f} s: lags {lags}"
                return [Violation(Broken.STUCK, what)]
            time.sleep(0.5)
        self.counts["seconds until the share group had settled everything"] = round(time.monotonic() - began_s)
        return []

    def judge(
        self, places: Iterable[tuple[int, int]], impairments: Sequence[Impairment], kafka_brokers: Iterable[str]
    ) -> list[Violation]:
        """``places``: every record of the topic. ``kafka_brokers``: the names of those that are Kafka's."""
        kafkas = set(kafka_brokers)
        disturbed = [impairment for impairment in impairments if kafkas.intersection(impairment.nodes)]
        if kafkas:
            disturbed += [impairment for impairment in impairments if EVERYTHING in impairment.nodes]
        self._check.may_be_stale = lambda from_s, to_s: any(
            impairment.touches(from_s - _STALE_S, to_s) for impairment in disturbed
        )
        found = self._check.violations(GROUP, places)
        self.counts += self._check.counts
        return found

    def _lags(self) -> list[int | None]:
        try:
            with SyncAdminClient(self._bootstrap) as admin:
                found = admin.list_share_group_offsets([GROUP], timeout_s=10)[GROUP].values
        except (AdminError, ClientError):
            return []
        partitions = [TopicPartition(self._topic, number) for number in range(self._partitions)]
        return [found[partition].lag if partition in found else None for partition in partitions]
