"""The active controller is killed repeatedly while topics are created: every acknowledged topic exists once.

``BARNABAS_QUORUM_KILLS=20`` runs the long form, as before a release.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from barnabas.clients.admin import AdminError, NewTopic, SyncAdminClient
from barnabas.clients.errors import ClientError
from tests.interop.test_quorum import OURS, elected
from tests.peers.quorums import OurBroker, barnabas, running_quorum

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("BARNABAS_QUORUM_KILLS", "2"))
SETTINGS = {"metadata.log.max.record.bytes.between.snapshots": "20000"}


class Load:
    """Creates one topic after the other until it is stopped."""

    def __init__(self, broker: OurBroker) -> None:
        self.acknowledged: set[str] = set()
        self.unknown: set[str] = set()
        self._broker = broker
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        with SyncAdminClient(self._broker.bootstrap_servers) as admin:
            while not self._is_over.wait(0.02):
                number += 1
                name = f"topic-{number}"
                try:
                    admin.create_topics([NewTopic(name, partitions=1, replication_factor=1)]).raise_for_errors()
                    self.acknowledged.add(name)
                except (AdminError, ClientError):
                    self.unknown.add(name)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()


def test_nothing_acknowledged_is_lost_when_active_controllers_are_killed(tmp_path: Path) -> None:
    with running_quorum(tmp_path, OURS, settings=SETTINGS) as quorum:
        broker = OurBroker(tmp_path / "broker", quorum)
        broker.start()
        try:
            with Load(broker) as load:
                for _ in range(KILLS):
                    leader = elected(quorum)
                    leader.kill()
                    elected(quorum)
                    leader.start()
            assert len(load.acknowledged) > 5 * KILLS
            assert load.unknown == set(), "each waited for the next controller"
            for controller in quorum.controllers:
                shown = barnabas("shell", "--bootstrap-controller", controller.address, "ls", "/image/topics/byName")
                assert set(shown.split()) == load.acknowledged
            assert broker.stop() == 0
        finally:
            broker.kill()
