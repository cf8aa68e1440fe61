from __future__ import annotations

from barnabas.connect.worker_connectors import _Subscription

COUNTS = {"orders": 3, "orders-eu": 1, "flights": 2}


def test_a_sink_reads_the_topics_that_it_names_as_far_as_they_are_there() -> None:
    subscription = _Subscription.of({"topics": " orders, flights,orders,,missing"})
    assert subscription.names == ("orders", "flights", "missing")
    assert subscription.chosen(COUNTS) == {"flights": 2, "orders": 3}


def test_a_pattern_must_fit_the_whole_name() -> None:
    assert _Subscription.of({"topics.regex": "orders"}).chosen(COUNTS) == {"orders": 3}
    assert _Subscription.of({"topics.regex": "orders.*"}).chosen(COUNTS) == {"orders": 3, "orders-eu": 1}


def test_without_either_nothing_is_read() -> None:
    assert _Subscription.of({}).chosen(COUNTS) == {}
