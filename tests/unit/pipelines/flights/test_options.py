from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.pipelines.flights.dataset import FLIGHT_COUNT
from barnabas.pipelines.flights.options import parse_options


def test_without_arguments_all_flights_are_streamed_through_a_local_node() -> None:
    options = parse_options([], {})
    assert (options.run_directory, options.bootstrap_server, options.keep) == (Path("flights-data"), None, False)
    assert options.flights == FLIGHT_COUNT == 336_776


@pytest.mark.parametrize(("value", "keep"), [("1", True), ("yes", True), ("0", False), ("", False), ("False", False)])
def test_keep_is_read_from_the_environment(value: str, keep: bool) -> None:
    assert parse_options([], {"KEEP": value}).keep is keep


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--flight", "3"], "unrecognized arguments: --flight"),
        (["--flights", "0"], "argument --flights: '0' is not a whole number from 1 to 336776"),
        (["--flights", "many"], "'many' is not a whole number"),
        (["--port", "65536"], "argument --port: '65536' is not a whole number from 1 to 65535"),
        (["--port", "9092", "--bootstrap-server", "kafka:9092"], "--port applies to a node that this command starts"),
        (["--bootstrap-server", "kafka"], "'kafka' is not of the form host:port"),
        (["--bootstrap-server", "kafka:99999"], "not of the form host:port"),
        (["--topic", "a b"], "'a b' is not a valid topic name"),
        (["--topic", ".."], "is not a valid topic name"),
        (["--cores", "0"], "'0' is neither a number of cores nor '*'"),
        (["--run-directory", __file__], "is not a folder"),
        (["--run-directory", "a,b"], "comma or colon"),
        (["more"], "unrecognized arguments: more"),
    ],
)
def test_an_invalid_option_is_reported_with_the_allowed_values(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        parse_options(arguments, {})
    assert exited.value.code == 2
    assert message in capsys.readouterr().err


def test_an_invalid_keep_value_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options([], {"KEEP": "perhaps"})
    assert "KEEP is 'perhaps'" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["localhost:9092", "a:1,b:2", "[::1]:9092"])
def test_the_address_of_a_cluster_is_accepted(address: str) -> None:
    assert parse_options(["--bootstrap-server", address], {}).bootstrap_server == address
