"""Which bootstrap server is asked next."""

from __future__ import annotations

from barnabas.raft.request_manager import RequestManager
from barnabas.raft.voter_set import Endpoint

SERVERS = tuple(Endpoint(f"host{number}", 9093) for number in range(3))
HUNG = SERVERS[0]
LEADER_ID = 1
TIMEOUT_MS, BACKOFF_MS = 2000, 20


def manager() -> RequestManager:
    """It always chooses the first of those that may be asked."""
    return RequestManager(
        bootstrap_servers=SERVERS,
        request_timeout_ms=TIMEOUT_MS,
        retry_backoff_ms=BACKOFF_MS,
        random_below=lambda bound: 0,
    )


def asked(requests: RequestManager, now_ms: int) -> Endpoint:
    found = requests.ready_bootstrap_server(now_ms)
    assert found is not None
    return found[1]


def test_a_leader_that_left_a_request_without_an_answer_is_not_the_server_that_is_asked_for_its_successor() -> None:
    requests = manager()
    assert asked(requests, 0) == HUNG
    requests.sent(LEADER_ID, 1, 0, HUNG)
    assert requests.ready_bootstrap_server(TIMEOUT_MS - 1) is None, "one request at a time"
    assert asked(requests, TIMEOUT_MS) == SERVERS[1]


def test_it_is_asked_again_after_a_while_because_it_may_lead_all_the_same() -> None:
    requests = manager()
    requests.sent(LEADER_ID, 1, 0, HUNG)
    requests.failed(LEADER_ID, 1, 500, is_lost=True)
    assert asked(requests, 500) == SERVERS[1]
    assert asked(requests, 500 + TIMEOUT_MS // 2) == HUNG


def test_an_answer_ends_the_silence() -> None:
    requests = manager()
    requests.sent(LEADER_ID, 1, 0, HUNG)
    requests.failed(LEADER_ID, 1, 500, is_lost=True)
    requests.sent(LEADER_ID, 2, 520, HUNG)
    requests.succeeded(LEADER_ID, 2)
    assert asked(requests, 530) == HUNG


def test_when_all_are_silent_any_of_them_is_asked() -> None:
    requests = manager()
    for number, server in enumerate(SERVERS):
        requests.sent(number, number, 0, server)
        requests.failed(number, number, 0, is_lost=True)
    assert asked(requests, BACKOFF_MS) == HUNG


def test_an_error_is_an_answer() -> None:
    requests = manager()
    requests.sent(LEADER_ID, 1, 0, HUNG)
    requests.failed(LEADER_ID, 1, 500)
    assert asked(requests, 520) == HUNG
