"""Transactions while brokers are killed, stopped and suspended: all of a transaction is seen, or nothing of it.

A small form of ``make history``: its transfers, its readers and its checks, which judge against the log of a broker.
The seed of the faults is printed, and drawn anew if none is given.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from random import Random, SystemRandom

import pytest

from barnabas.testing import Cluster, ClusterNode
from tests.history.bank_check import check_balance
from tests.history.clients import Client
from tests.history.committed_readers import CommittedReader, ends, final_session
from tests.history.dependency_check import check_cycles
from tests.history.log_files import read_batches
from tests.history.transaction_history import Outcome, TransactionHistory
from tests.history.transaction_log import TopicLog, read_topic
from tests.history.transactional_clients import TIMEOUT_MS, Appender, Bank
from tests.history.transactions_check import check_producers, check_session

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    # A warning of the client library is not ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

TOPIC = "transfers"
PARTITIONS = 6
SECONDS = float(os.environ.get("BARNABAS_TRANSACTIONS_SECONDS", "8"))


def inject(cluster: Cluster, random: Random, until_s: float) -> list[str]:
    """Do one thing after the other to one broker at a time."""
    done = []
    while time.monotonic() < until_s:
        time.sleep(random.uniform(0.5, 1.5))
        broker: ClusterNode = random.choice(cluster.brokers)
        fault = random.choice(["kill", "kill", "stop", "pause"])
        done.append(f"{fault} {broker.node_id}")
        getattr(broker, fault)()
        time.sleep(random.uniform(0.2, 3.5 if fault == "pause" else 1.0))
        if fault == "pause":
            broker.resume()
        else:
            broker.start()
        time.sleep(random.uniform(0.5, 1.5))
    return done


def stable_ends(bootstrap: str) -> dict[int, int]:
    """Wait until the time-outs have ended the transactions of the producers that gave up. Return the ends."""
    deadline = time.monotonic() + TIMEOUT_MS / 1000 + 20
    while True:
        found = ends(bootstrap, TOPIC, PARTITIONS)
        if len(found) == PARTITIONS and all(stable == end for stable, end in found.values()):
            return {partition: end for partition, (_, end) in found.items()}
        assert time.monotonic() < deadline, f"open transactions: {found}"
        time.sleep(0.2)


def judge(history: TransactionHistory, log: TopicLog) -> list[str]:
    found = [*log.violations, *check_producers(history, {TOPIC: log})]
    for session in history.sessions:
        found += [*check_session(session, log), *check_balance(session, log)[1]]
    found += check_cycles(list(history.transactions.values()), {TOPIC: log})
    return [str(violation) for violation in found]


def stop(clients: Sequence[Client]) -> None:
    for client in clients:
        client.ask_to_stop()
    for client in clients:
        client.stop()


def test_a_transaction_is_seen_as_a_whole_or_not_at_all() -> None:
    seed = int(os.environ.get("BARNABAS_TRANSACTIONS_SEED", SystemRandom().randrange(2**31)))
    print(f"seed {seed}; again: BARNABAS_TRANSACTIONS_SEED={seed}")
    history, random = TransactionHistory(), Random(seed)
    settings = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    with Cluster(3, topics={TOPIC: PARTITIONS}, settings=settings) as cluster:
        common = cluster.bootstrap_servers, TOPIC, PARTITIONS, history
        clients: list[Client] = [Bank(*common, name=f"bank-{number}", seed=seed) for number in range(2)]
        clients.append(Appender(*common, name="appender", seed=seed))
        clients.append(CommittedReader(*common, name="reader", seed=seed, jumps=True))
        for client in clients:
            client.start()
        faults = inject(cluster, random, time.monotonic() + SECONDS)
        time.sleep(3)
        stop(clients)
        end = stable_ends(cluster.bootstrap_servers)
        assert final_session(cluster.bootstrap_servers, TOPIC, end, history, timeout_s=60)
        folders = [cluster.brokers[0].folder / "data" / f"{TOPIC}-{number}" for number in range(PARTITIONS)]
        cluster.stop()
        log = read_topic(TOPIC, {number: read_batches(folder) for number, folder in enumerate(folders)})
        logs = [broker.log for broker in cluster.brokers]
    outcomes = Counter(transaction.outcome for transaction in history.transactions.values())
    problems = sum((client.counts for client in clients), Counter[str]())
    print(f"{outcomes}, {problems}, faults: {', '.join(faults)}")
    assert judge(history, log) == []
    assert outcomes[Outcome.COMMITTED] > 20
    assert not [log for log in logs if "Traceback" in log]
