"""A sample of ``make siege`` without clocks: which inputs are refused, their cost in memory and log, and whether other
clients are served."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from urllib.request import urlopen

import pytest

from barnabas.connect.rest.route import Access
from barnabas.connect.rest.route_table import ROUTES as WORKER_ROUTES
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.metadata import MetadataRequest
from tests.interop.attacker import is_closed, wait_until
from tests.peers.secure import SecureNode
from tests.siege.catalogue import ENTRIES
from tests.siege.entry import Entry
from tests.siege.frames import MIB, framed, sized, tags
from tests.siege.genome import BatchGenome, RequestGenome, random_genome
from tests.siege.measure import memory_bytes
from tests.siege.rest_genome import ROUTES, RestGenome
from tests.siege.run import members_of_worker
from tests.siege.search import cost_ns_per_byte, search
from tests.siege.stage import BOB, CONTROLLER, REST, Scene, logged_in, running_stage, running_worker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

ROUNDS = 5


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecureNode, Scene]]:
    with running_stage(tmp_path_factory.mktemp("siege"), "ours") as running:
        yield running
    assert "Traceback" not in running[0].process.printed()


def named(name: str) -> Entry:
    return next(entry for entry in ENTRIES if entry.name == name)


def send_until_closed(connection: socket.socket, data: bytes) -> None:
    connection.settimeout(20)
    try:
        connection.sendall(data)
    except OSError:
        return
    wait_until(lambda: is_closed(connection))


def send_and_wait_a_little(connection: socket.socket, data: bytes) -> None:
    """The timeout for inputs that are read slowly, longer than a test can wait."""
    connection.settimeout(2)
    with suppress(OSError):
        connection.sendall(data)
        connection.recv(1)


REFUSED = {
    "ApiVersions with 500 KB of empty tagged fields, before login, SASL_PLAINTEXT": "before.login",
    "ApiVersions with 500 KB of empty tagged fields, before login, CONTROLLER": "before.login",
    "header with 500 KB of tagged fields, before login, SASL_PLAINTEXT": "before.login",
    "Metadata with 20 MB of empty tagged fields, PLAINTEXT": "at most 64 are accepted",
    "Metadata with 20 MB of empty tagged fields, SASL_PLAINTEXT": "User:bob: Metadata version 12 cannot be read",
    "DescribeQuorum with 20 MB of empty tagged fields, controller": "User:bob: frame size 20971539 of DescribeQuorum",
    "Metadata of 2,000,000 names of one byte": "more than the 100000 array elements",
    "CreateTopics of 90,000 topics without a right": "more than the 20000 array elements",
    "delegation token with 50,000 renewers": "more than the 20000 array elements",
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_hostile_requests_are_refused_by_name_at_little_cost(stage: tuple[SecureNode, Scene], name: str) -> None:
    node, scene = stage
    entry = named(name)
    (payload,) = entry.payloads(scene, Random(1))
    log_before, memory_before = len(node.process.printed()), memory_bytes(node.process.pid)
    for _ in range(ROUNDS):
        if entry.user is None:
            connection = socket.create_connection(("127.0.0.1", scene.ports[entry.listener]), 10)
        else:
            connection = logged_in(scene.ports[entry.listener], entry.user)._socket
        with connection:
            send_until_closed(connection, payload)
    printed = node.process.printed()
    assert REFUSED[name] in printed
    assert len(printed) - log_before < 5_000
    assert memory_bytes(node.process.pid) - memory_before < 3 * len(payload) + 32 * MIB


def test_a_large_request_is_refused_before_it_is_sent(stage: tuple[SecureNode, Scene]) -> None:
    _, scene = stage
    whole = sized(ApiKey.HEARTBEAT, 4, b"\x02g\0\0\0\0\x02m\0" + tags(2 * MIB))
    with logged_in(scene.ports["SASL_PLAINTEXT"], BOB)._socket as connection:
        connection.sendall(whole[:6])
        wait_until(lambda: is_closed(connection))


def test_others_are_served_between_the_parts_of_a_long_answer(stage: tuple[SecureNode, Scene]) -> None:
    _, scene = stage
    entry = named("Metadata of 90,000 unknown names")
    (payload,) = entry.payloads(scene, Random(1))
    long, short = (logged_in(scene.ports["SASL_PLAINTEXT"], BOB) for _ in range(2))
    long._socket.sendall(payload)
    for _ in range(20):
        short.call(MetadataRequest(topics=[]), 12)
    long._socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        long._socket.recv(1)
    long._socket.close()
    short.close()


OF_A_WORKER = (
    "tasks of 16 MB without a signature",
    "tasks of 16 MB with a wrong signature",
    "connector with 40,000 settings",
    "JSON of 900 KB that is nested",
    "body in chunks of one byte",
    "head of 10 MB",
)


def stable_members(scene: Scene) -> object:
    """Return the group's members after its rebalance, so that only an attack changes them."""
    deadline = time.monotonic() + 30
    while (members := members_of_worker(scene))[0] != "Stable":
        assert time.monotonic() < deadline, members
        time.sleep(0.1)
    return members


def test_a_worker_answers_and_stays_in_its_group_under_hostile_requests(
    stage: tuple[SecureNode, Scene], tmp_path: Path
) -> None:
    _, scene = stage
    with running_worker(tmp_path, "ours", scene) as worker:
        before = stable_members(scene)
        memory_before = memory_bytes(worker.pid)
        for name in OF_A_WORKER:
            (payload,) = named(name).payloads(scene, Random(1))
            for _ in range(ROUNDS):
                with socket.create_connection(("127.0.0.1", worker.port), 10) as connection:
                    send_and_wait_a_little(connection, payload)
                with urlopen(f"http://127.0.0.1:{worker.port}/connectors", timeout=20) as answer:
                    assert answer.read() == b"[]"
        assert members_of_worker(scene) == before
        assert memory_bytes(worker.pid) - memory_before < 3 * 16 * MIB + 32 * MIB
        assert worker.log_path.stat().st_size < 50_000
        assert "Traceback" not in worker.printed()


def test_the_catalogue_covers_each_kind_of_listener_before_and_after_a_login() -> None:
    names = [entry.name for entry in ENTRIES]
    assert len(names) == len(set(names)) >= 60
    covered = {(entry.listener, entry.user is not None) for entry in ENTRIES}
    assert covered >= {
        ("PLAINTEXT", False), ("SSL", False), ("SASL_PLAINTEXT", False), ("SASL_PLAINTEXT", True),
        ("SASL_SSL", False), ("SASL_SSL", True), (CONTROLLER, False), (CONTROLLER, True), (REST, False),
    }  # fmt: skip


def test_the_search_is_deterministic_for_a_seed() -> None:
    def walk(seed: int) -> list[object]:
        rng = Random(seed)
        genome = random_genome(rng)
        steps: list[object] = [genome]
        for _ in range(20):
            genome = genome.mutated(rng)
            steps.append(genome)
        return steps

    assert walk(7) == walk(7)
    assert len({tuple(walk(seed)) for seed in range(20)}) == 20
    assert len(framed(RequestGenome(api_key=3, version=12, outer=10, string=5).body())) > 100
    assert BatchGenome(codec=1, records=3, headers=2).batch(0)[16] == 2


def test_the_search_covers_each_route_that_takes_a_body() -> None:
    taken = {
        (route.method, re.sub(r"{[^}]*}", "*", route.path))
        for route in WORKER_ROUTES
        if route.body is not None or route.access is Access.INTERNAL
    }
    searched = {tuple(re.sub(r"mallory|Mallory|root", "*", route).split()) for route in ROUTES}
    assert taken - searched == set()


def test_the_search_measures_what_a_worker_does_with_a_request() -> None:
    cheap, dear = RestGenome(1, shape=1, count=500), RestGenome(1, shape=1, count=500, chunk=1)
    assert cost_ns_per_byte(dear) > cost_ns_per_byte(cheap) > 0
    (found, *_) = search(7, 5, [(RestGenome, 1)])
    assert found.cost > 0
    assert isinstance(found.genome, RestGenome)


def test_the_catalogue_has_the_inputs_that_the_search_found() -> None:
    found = [entry for entry in ENTRIES if entry.name.startswith("found by the search")]
    assert {entry.listener for entry in found} == {"SASL_PLAINTEXT", REST}
