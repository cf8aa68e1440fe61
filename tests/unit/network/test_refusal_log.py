"""A refusal is logged once a minute for each host and reason."""

from __future__ import annotations

import logging

import pytest

from barnabas.network.refusal_log import RefusalLog


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "barnabas.network.refusal_log")
    return caplog


def test_a_refusal_names_listener_peer_and_reason(lines: pytest.LogCaptureFixture) -> None:
    RefusalLog("SSL").refused("192.0.2.7", 5000, "it is not TLS", 0.0)
    assert lines.messages == ["listener SSL: refused 192.0.2.7:5000: it is not TLS"]


def test_a_refusal_is_repeated_after_a_minute_with_its_count(lines: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog("SSL")
    for second in range(60):
        refusals.refused("192.0.2.7", 5000 + second, "it is not TLS", float(second))
    refusals.refused("192.0.2.7", 6000, "it is not TLS", 60.0)
    assert lines.messages[1:] == ["listener SSL: refused 192.0.2.7:6000: it is not TLS (and 59 times before that)"]


def test_other_reasons_and_hosts_have_their_own_lines(lines: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog("SSL")
    for host, reason in (("a", "x"), ("a", "y"), ("b", "x"), ("a", "x")):
        refusals.refused(host, 1, reason, 0.0)
    assert len(lines.messages) == 3


def test_thousands_of_hosts_do_not_fill_the_log_or_the_memory(lines: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog("SSL")
    for number in range(5000):
        refusals.refused(f"host-{number}", 1, "it is not TLS", number / 1000)
    refusals.refused("another", 1, "it is not TLS", 11.0)
    assert len(lines.messages) == 22
    assert lines.messages[-2] == "listener SSL: refused 4980 more connections of other hosts"
    assert len(refusals._entries) <= 512


def test_a_name_in_a_reason_causes_neither_a_second_line_nor_a_long_one(lines: pytest.LogCaptureFixture) -> None:
    RefusalLog("SSL").refused("a", 1, "no rule for CN=x\n2026-01-01 INFO all is well\x1b[2J" + "y" * 5000, 0.0)
    assert "\n" not in lines.messages[0]
    assert "\x1b" not in lines.messages[0]
    assert "CN=x\\u000a2026" in lines.messages[0]
    assert len(lines.messages[0]) < 600


def test_log_flooding_lines_about_broken_frames_are_specific_and_limited(lines: pytest.LogCaptureFixture) -> None:
    faults = RefusalLog("PLAINTEXT", "closing the connection of")
    for number in range(10_000):
        faults.refused("192.0.2.7", 5000, f"frame size {number} is not allowed", number / 1000)
    assert lines.messages[0] == (
        "listener PLAINTEXT: closing the connection of 192.0.2.7:5000: frame size 0 is not allowed"
    )
    assert len(lines.messages) < 25
