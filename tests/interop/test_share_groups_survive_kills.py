"""Share groups while members and brokers are killed, or all brokers are restarted one after the other: each record is
accepted, and none is delivered after that.

The seed of the faults is printed, and drawn anew if none is given.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random, SystemRandom

import pytest

from barnabas.testing import Cluster
from tests.interop.share_work import ShareWork, share_work

pytestmark = [pytest.mark.interop, pytest.mark.timeout(420)]

TOPIC, PARTITIONS = "jobs", 4
FAULTS = int(os.environ.get("BARNABAS_SHARE_GROUPS_FAULTS", "6"))
SETTINGS = {
    "group.share.delivery.count.limit": "10",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.initialize.retry.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.min.session.timeout.ms": "10000",
    "group.share.session.timeout.ms": "10000",
    "group.share.min.record.lock.duration.ms": "3000",
    "group.share.record.lock.duration.ms": "3000",
    "share.coordinator.state.topic.num.partitions": "4",
}


def inject(cluster: Cluster, work: ShareWork, random: Random) -> Iterator[str]:
    """Kill a member and a broker by turns, and start them again."""
    for number in range(FAULTS):
        time.sleep(random.uniform(1, 3))
        work.await_progress()
        if number % 2 == 0:
            work.kill_member(random)
            work.begin_member()
            yield "kill a member"
        else:
            broker = random.choice(cluster.brokers)
            broker.kill()
            time.sleep(random.uniform(0.2, 2))
            broker.start()
            yield f"kill broker {broker.node_id}"


def restart(cluster: Cluster, work: ShareWork, random: Random) -> Iterator[str]:
    """Restart each broker in an orderly way, as for an upgrade, in a random order."""
    for broker in random.sample(list(cluster.brokers), len(cluster.brokers)):
        work.await_progress()
        broker.stop()
        work.await_progress()
        broker.start()
        yield f"restart broker {broker.node_id}"
    work.await_progress()


@pytest.mark.parametrize("disturb", [inject, restart])
def test_no_record_is_lost_or_delivered_after_it_was_accepted(
    disturb: Callable[[Cluster, ShareWork, Random], Iterator[str]], tmp_path: Path, kafka_peer: Path
) -> None:
    seed = int(os.environ.get("BARNABAS_SHARE_GROUPS_SEED", SystemRandom().randrange(2**31)))
    print(f"seed {seed}; again: BARNABAS_SHARE_GROUPS_SEED={seed}")
    with Cluster(3, topics={TOPIC: PARTITIONS}, settings=SETTINGS) as cluster:
        with share_work(cluster.bootstrap_servers, TOPIC, PARTITIONS, tmp_path, members=3) as work:
            faults = list(disturb(cluster, work, Random(seed)))
            work.finish()
        logs = [broker.log for broker in cluster.brokers]
    print(f"{work.check()}; faults: {', '.join(faults)}")
    assert not [log for log in logs if "Traceback" in log]
