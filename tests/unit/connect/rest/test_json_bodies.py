"""Bodies as Kafka reads them: scalars become strings, null stays null, other values are refused with a reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.errors import BadRequest, ConnectError
from barnabas.connect.identifiers import TargetState
from barnabas.connect.rest.json_bodies import (
    MalformedBody,
    read_config,
    read_create,
    read_level,
    read_offsets,
    read_task_configs,
)

texts = st.text().filter(lambda text: not any("\ud800" <= character <= "\udfff" for character in text))
READERS = (read_config, read_create, read_level, read_offsets, read_task_configs)


@given(st.dictionaries(texts, st.none() | texts | st.integers() | st.booleans(), max_size=8))
def test_settings_are_strings_or_null(config: dict[str, object]) -> None:
    expected = {
        key: value if value is None or isinstance(value, str) else json.dumps(value) for key, value in config.items()
    }
    assert read_config(json.dumps(config).encode()) == expected
    assert list(read_config(json.dumps(config, ensure_ascii=False).encode())) == list(config)


def test_numbers_keep_their_notation() -> None:
    assert read_config(b'{"a": 1.50, "b": 1e3, "c": -0, "d": 123456789012345678901234567890}') == {
        "a": "1.50",
        "b": "1e3",
        "c": "-0",
        "d": "123456789012345678901234567890",
    }


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_raise_an_api_error(body: bytes) -> None:
    for read in READERS:
        try:
            read(body)
        except ConnectError as error:
            assert str(error)


@pytest.mark.parametrize(
    "body", [b"", b" ", b"null", b"[]", b"5", b'{"a":{}}', b'{"a":[]}', b"{nope", b'{"a":1', b'{"a":nul}']
)
def test_a_body_that_is_not_a_map_of_strings_is_a_500(body: bytes) -> None:
    with pytest.raises(MalformedBody) as caught:
        read_config(body)
    assert caught.value.http_status == 500


@pytest.mark.parametrize("read", READERS)
def test_deep_nesting_is_refused(read: object) -> None:
    with pytest.raises(MalformedBody):
        read(b'{"config":' + b"[" * 200_000)  # type: ignore[operator]


def test_the_name_of_a_new_connector_is_trimmed_and_may_be_missing() -> None:
    assert read_create(b'{"name": " pad ", "config": {}}').name == "pad"
    assert read_create(b'{"name": 5, "config": {}}').name == "5"
    assert read_create(b'{"config": {}}').name == ""
    assert read_create(b'{"name": null, "config": {}}').name == ""


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ('"RUNNING"', TargetState.STARTED),
        ('"paused"', TargetState.PAUSED),
        ('"Stopped"', TargetState.STOPPED),
        ("null", None),
    ],
)
def test_an_initial_state_is_accepted_in_any_case(text: str, state: TargetState | None) -> None:
    assert read_create(f'{{"name":"a","config":{{}},"initial_state":{text}}}'.encode()).initial_state is state


@pytest.mark.parametrize(
    "body",
    [
        b'{"name":"a","config":{},"zzz":1}',
        b'{"name":"a"}',
        b'{"name":"a","config":null}',
        b'{"name":"a","config":[]}',
        b'{"name":{},"config":{}}',
        b'{"name":"a","config":{},"initial_state":"WEIRD"}',
    ],
)
def test_a_body_that_cannot_create_a_connector_is_a_500_with_the_reason(body: bytes) -> None:
    with pytest.raises(MalformedBody, match="zzz|config|name|initial_state"):
        read_create(body)


@pytest.mark.parametrize("body", [b"{}", b'{"offsets":[]}', b'{"offsets":null}'])
def test_missing_offsets_are_a_400(body: bytes) -> None:
    with pytest.raises(BadRequest, match="need to be provided"):
        read_offsets(body)


def test_offsets_and_partitions_may_be_null() -> None:
    (first,) = read_offsets(b'{"offsets":[{"partition":null,"offset":{"position":12345678901}}]}')
    assert first.partition is None
    assert first.offset == {"position": 12345678901}


def test_a_missing_level_is_none() -> None:
    assert read_level(b"{}") is None
    assert read_level(b'{"level":"debug","more":1}') == "debug"


def test_task_configurations_are_a_list_of_maps() -> None:
    assert read_task_configs('[{"a":"é"},{"b":null}]'.encode()) == [{"a": "é"}, {"b": None}]
    for body in (b"", b"null", b"{}", b"[[]]"):
        with pytest.raises(MalformedBody):
            read_task_configs(body)
