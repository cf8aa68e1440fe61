"""Which bootstrap server is contacted next."""

from __future__ import annotations

from barnabas.raft.request_manager import RequestManager
from barnabas.raft.voter_set import Endpoint

SERVERS = tuple(Endpoint(f"host{number}", 9093) for number in range(3))
HUNG = SERVERS[0]
LEADER_ID = 1
TIMEOUT_MS, BACKOFF_MS = 2000, 20


def manager() -> RequestManager:
    """Create a manager that always chooses the first allowed server."""
    return RequestManager(
        bootstrap_servers=SERVERS,
        request_timeout_ms=TIMEOUT_MS,
        retry_backoff_ms=BACKOFF_MS,
        random_below=lambda bound: 0,
    )


def next_server(requests: RequestManager, now_ms: int) -> Endpoint:
    found = requests.ready_bootstrap_server(now_ms)
    assert found is not None
    return found[1]


def test_the_request_for_the_successor_of_a_silent_leader_avoids_that_leader() -> None:
    requests = manager()
    assert next_server(requests, 0) == HUNG
    requests.sent(LEADER_ID, 1, 0, HUNG)
    assert requests.ready_bootstrap_server(TIMEOUT_MS - 1) is None, "one request at a time"
    assert next_server(requests, TIMEOUT_MS) == SERVERS[1]


def test_a_silent_leader_is_contacted_again_later_because_it_may_still_lead() -> None:
    requests = manager()
    requests.sent(LEADER_ID, 1, 0, HUNG)
    requests.failed(LEADER_ID, 1, 500, is_lost=True)
    assert next_server(requests, 500) == SERVERS[1]
    assert next_server(requests, 500 + TIMEOUT_MS // 2) == HUNG


def test_a_response_ends_the_silence() -> None:
    requests = manager()
    requests.sent(LEADER_ID, 1, 0, HUNG)
    requests.failed(LEADER_ID, 1, 500, is_lost=True)
    requests.sent(LEADER_ID, 2, 520, HUNG)
    requests.succeeded(LEADER_ID, 2)
    assert next_server(requests, 530) == HUNG


def test_if_all_servers_are_silent_any_of_them_is_contacted() -> None:
    requests = manager()
    for number, server in enumerate(SERVERS):
        requests.sent(number, number, 0, server)
        requests.failed(number, number, 0, is_lost=True)
    assert next_server(requests, BACKOFF_MS) == HUNG


def test_an_error_is_a_response() -> None:
    requests = manager()
    requests.sent(LEADER_ID, 1, 0, HUNG)
    requests.failed(LEADER_ID, 1, 500)
    assert next_server(requests, 520) == HUNG
