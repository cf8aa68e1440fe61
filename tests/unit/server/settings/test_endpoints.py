"""Listeners, voters and protocol maps as text."""

import pytest

from barnabas.server.settings.endpoints import (
    Endpoint,
    QuorumVoter,
    listener_protocols,
    parse_endpoint,
    parse_protocol_map,
    parse_voter,
)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("PLAINTEXT://localhost:9092", Endpoint("PLAINTEXT", "localhost", 9092)),
        ("internal://:0", Endpoint("INTERNAL", "", 0)),
        ("A-B_c://[::1]:65535", Endpoint("A-B_C", "::1", 65535)),
    ],
)
def test_an_endpoint_consists_of_a_name_a_host_and_a_port(text: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(text) == endpoint
    assert parse_endpoint(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    "text", ["", "localhost:9092", "://x:1", "A://x", "A://x:65536", "A://x:999999", "A://::1:9092", "A://x:-1"]
)
def test_a_malformed_endpoint_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        parse_endpoint(text)


def test_voters_have_an_id_and_bootstrap_servers_do_not() -> None:
    assert parse_voter("1@localhost:9093") == QuorumVoter(1, "localhost", 9093)
    assert parse_voter("[::1]:9093") == QuorumVoter(-1, "::1", 9093)
    with pytest.raises(ValueError, match="'localhost'"):
        parse_voter("localhost")


def test_a_protocol_map_is_read_in_any_case() -> None:
    assert parse_protocol_map("a:plaintext, B:SASL_SSL") == {"A": "PLAINTEXT", "B": "SASL_SSL"}


@pytest.mark.parametrize("text", ["A", "A:TLS", "A:SSL,a:SSL", ":SSL"])
def test_an_invalid_protocol_map_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"A|SSL"):
        parse_protocol_map(text)


def test_controller_listeners_are_plaintext_by_default() -> None:
    default = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL"}
    assert listener_protocols(default, ["ctl"], ["PLAINTEXT"], given=False)["CTL"] == "PLAINTEXT"
    assert "CTL" not in listener_protocols(default, ["CTL"], ["SSL"], given=False)
    assert "CTL" not in listener_protocols(default, ["CTL"], ["PLAINTEXT"], given=True)
