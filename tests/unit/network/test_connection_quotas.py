"""Limits of connections: which are closed, which wait and how long, and that each is counted once."""

from __future__ import annotations

from typing import Any

from barnabas.network.connection_quotas import ConnectionCaps, ConnectionQuotas, ListenerCaps


class Peer:
    """A connection, as seen by its quotas."""

    def __init__(self, host: str = "192.0.2.1", last_active: float = 0.0) -> None:
        self.peer_host = host
        self.last_active = last_active
        self.rests: list[float] = []
        self.ends_after: float | None = None
        self.is_closed = False
        self.is_awake = True

    def rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.is_awake = False

    def wake(self) -> None:
        self.is_awake = True

    def end_after(self, delay_s: float, answer: bytes | None) -> None:
        self.ends_after = delay_s

    def close(self) -> None:
        self.is_closed = True


class World:
    def __init__(self, **caps: Any) -> None:
        self.now_s = 100.0
        self.quotas = ConnectionQuotas(ConnectionCaps(**caps), now_s=lambda: self.now_s)

    def open(self, peer: Any = None, listener: str = "PLAINTEXT") -> tuple[Any, str | None]:
        peer = peer or Peer()
        return peer, self.quotas.opened(listener, peer)

    def close(self, peer: Any, listener: str = "PLAINTEXT") -> None:
        self.quotas.closed(listener, peer)


def test_without_limits_every_connection_is_accepted_immediately() -> None:
    world = World()
    for _ in range(1000):
        peer, refusal = world.open()
        assert (refusal, peer.rests) == (None, [])


def test_a_connection_beyond_the_maximum_waits_until_another_closes() -> None:
    world = World(connections_max=2)
    first, second, third, fourth = (world.open()[0] for _ in range(4))
    assert [peer.is_awake for peer in (first, second, third, fourth)] == [True, True, False, False]
    world.close(fourth)
    world.close(first)
    assert third.is_awake
    assert world.quotas.waiting_count == 0
    assert not world.open()[0].is_awake


def test_a_listener_has_a_maximum_of_its_own() -> None:
    world = World(by_listener={"EXTERNAL": ListenerCaps(connections_max=1)})
    assert world.open(listener="EXTERNAL")[0].is_awake
    waiting = world.open(listener="EXTERNAL")[0]
    assert not waiting.is_awake
    assert world.open(listener="INTERNAL")[0].is_awake
    world.quotas.follow(ConnectionCaps())
    assert waiting.is_awake


def test_the_listener_between_brokers_does_not_wait_for_others() -> None:
    world = World(connections_max=2, protected_listener="INTERNAL")
    world.open(listener="INTERNAL")
    idle, _ = world.open(Peer(last_active=1.0), "EXTERNAL")
    assert world.open(listener="INTERNAL")[0].is_awake
    assert idle.is_closed
    world.close(idle, "EXTERNAL")
    assert not world.open(listener="EXTERNAL")[0].is_awake


def test_connections_are_limited_per_address_and_a_named_one_has_its_own_limit() -> None:
    world = World(per_ip_max=2, per_ip_overrides={"192.0.2.9": 0})
    first = world.open()[0]
    assert world.open()[1] is None
    third, refusal = world.open()
    assert refusal == "it has max.connections.per.ip=2 connections"
    world.close(third)
    world.close(first)
    assert world.open()[1] is None
    assert world.open(Peer("192.0.2.9"))[1] is not None
    assert world.open(Peer("192.0.2.2"))[1] is None


def test_closing_an_uncounted_connection_is_harmless() -> None:
    world = World(per_ip_max=1)
    world.open()
    world.close(Peer())
    assert world.open()[1] is not None


def test_connections_above_the_rate_wait_longer_and_longer() -> None:
    world = World(creation_rate=10)
    peers = [world.open()[0] for _ in range(103)]
    assert all(peer.is_awake for peer in peers[:100]), "the connections that ten windows allow are accepted immediately"
    assert [round(peer.rests[0], 3) for peer in peers[100:]] == [0.1, 0.3, 0.6]
    world.now_s += 20
    assert world.open()[0].is_awake


def test_no_connection_waits_longer_than_a_window_for_its_own_excess() -> None:
    world = World(by_listener={"PLAINTEXT": ListenerCaps(creation_rate=1)})
    peers = [world.open()[0] for _ in range(14)]
    assert [round(peer.rests[0], 3) for peer in peers[10:]] == [1.0, 2.0, 3.0, 4.0]


def test_connections_above_the_rate_of_an_address_are_closed_after_a_delay() -> None:
    world = World()
    world.quotas.follow_ip_rates(None, {"192.0.2.1": 1.0})
    peers = [world.open()[0] for _ in range(12)]
    assert [peer.ends_after for peer in peers] == [None] * 10 + [1.0, 1.0]
    assert world.open(Peer("192.0.2.2"))[0].ends_after is None
    world.quotas.follow_ip_rates(None, {})
    assert world.open()[0].ends_after is None
