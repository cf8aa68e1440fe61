"""The active controller of three is killed while clients of a broker create topics: each is created once, and its
client receives success.

``BARNABAS_CONTROLLER_KILLS=20`` raises the number of kills from two, and also runs Kafka's controllers, which do not
recognize a repeated call.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.admin import SyncAdminClient
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from tests.interop.raw_client import RawClient
from tests.interop.test_quorum import leader_of
from tests.peers.mixed import OurBroker
from tests.peers.quorums import OurController, Quorum, RealController, running_quorum
from tests.unit.controller.controller_harness import topic

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

CLIENTS = 4
KILLS = int(os.environ.get("BARNABAS_CONTROLLER_KILLS", "2"))


IS_FULL = "BARNABAS_CONTROLLER_KILLS" in os.environ


@pytest.fixture(params=[OurController, *([RealController] if IS_FULL else [])], ids=lambda kind: kind.__name__)
def quorum(request: Any, tmp_path: Path) -> Iterator[Quorum]:
    with running_quorum(tmp_path / "controllers", [request.param] * 3) as running:
        yield running


@pytest.fixture
def broker(quorum: Quorum, tmp_path: Path) -> Iterator[OurBroker]:
    node = OurBroker(tmp_path / "broker", 1, controllers=quorum.servers, cluster_id=quorum.cluster_id)
    node.start()
    yield node
    node.kill()


class Creator(threading.Thread):
    """Creates topics one after the other; ``codes`` has the error code of each."""

    def __init__(self, broker: OurBroker, number: int, ends: threading.Event) -> None:
        super().__init__()
        self.codes: dict[str, ErrorCode] = {}
        self._client = RawClient(broker.port, client_id=f"creator-{number}", timeout_s=60)
        self._number = number
        self._ends = ends

    def run(self) -> None:
        while not self._ends.is_set():
            name = f"t-{self._number}-{len(self.codes)}"
            made = self._client.call(CreateTopicsRequest(topics=[topic(name)], timeout_ms=50_000), 7)
            self.codes[name] = ErrorCode(made.topics[0].error_code)
        self._client.close()


def test_no_call_is_lost_or_applied_twice(quorum: Quorum, broker: OurBroker) -> None:
    ends = threading.Event()
    creators = [Creator(broker, number, ends) for number in range(CLIENTS)]
    for creator in creators:
        creator.start()
    for _ in range(KILLS):
        time.sleep(0.7)
        leader = leader_of(quorum)
        assert leader is not None
        leader.kill()
        before = sum(len(creator.codes) for creator in creators)
        deadline = time.monotonic() + 30
        while sum(len(creator.codes) for creator in creators) < before + 2 * CLIENTS:
            assert time.monotonic() < deadline, broker.printed()[-3000:]
            time.sleep(0.05)
        leader.launch()
    ends.set()
    for creator in creators:
        creator.join()
    answers = {name: code for creator in creators for name, code in creator.codes.items()}
    in_doubt = set() if isinstance(quorum.controllers[0], OurController) else {ErrorCode.TOPIC_ALREADY_EXISTS}
    assert {name: code for name, code in answers.items() if code and code not in in_doubt} == {}
    with SyncAdminClient(broker.bootstrap_servers) as admin:
        assert set(answers) <= {topic.name for topic in admin.list_topics()}
