"""The state that the records of the topic describe."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.registry.decide.errors import RegistryError
from barnabas.registry.decide.registry_state import LATEST, RegistryState
from barnabas.registry.decide.schema import AVRO, Reference, Schema
from barnabas.registry.decide.topic_records import (
    MalformedRecord,
    StoredVersion,
    TopicRecord,
    config_record,
    delete_subject_record,
    mode_record,
    noop_record,
    schema_record,
)


def version(subject: str, number: int, schema_id: int, text: str = '"string"', **more: Any) -> TopicRecord:
    schema = Schema(AVRO, text, more.pop("references", ()))
    return schema_record(subject, number, StoredVersion(subject, number, schema_id, schema, **more))


def state_of(*records: TopicRecord) -> RegistryState:
    state = RegistryState()
    for record in records:
        state.replay(record.key, record.value)
    return state


def error_code(call: Any, *arguments: Any, **options: Any) -> int:
    with pytest.raises(RegistryError) as refused:
        call(*arguments, **options)
    return refused.value.code


def test_versions_are_in_order_whatever_order_they_come_in() -> None:
    state = state_of(version("s", 2, 2, '"int"'), version("s", 1, 1), version("s", 3, 3, '"long"'))
    assert [stored.version for stored in state.versions("s")] == [1, 2, 3]
    assert state.version("s", LATEST).schema_id == 3
    assert error_code(state.version, "s", 4) == 40402
    assert error_code(state.version, "other", 1) == 40401


def test_a_deleted_version_is_found_by_its_id_only() -> None:
    state = state_of(version("s", 1, 7), version("s", 1, 7, is_deleted=True))
    assert list(state.subjects()) == []
    assert list(state.subjects(deleted=True)) == ["s"]
    assert state.by_id(".", 7).is_deleted
    assert error_code(state.version, "s", 1) == 40401
    assert state.version("s", 1, deleted=True).schema_id == 7


def test_deletion_of_a_subject_covers_the_versions_up_to_its_own() -> None:
    state = state_of(version("s", 1, 1), version("s", 2, 2, '"int"'), delete_subject_record("s", 2))
    state.replay(*version("s", 3, 2, '"int"'))
    assert [stored.version for stored in state.versions("s")] == [3]
    assert state.last_version_number("s") == 3


def test_a_tombstone_removes_a_version_and_an_id_without_versions() -> None:
    state = state_of(version("s", 1, 1), version("t", 1, 1), schema_record("s", 1, None))
    assert state.by_id(".", 1).subject == "t"
    state.replay(*schema_record("t", 1, None))
    assert error_code(state.by_id, ".", 1) == 40403
    assert state.id_of(".", Schema(AVRO, '"string"').identity) is None
    assert state.id_max(".") == 1  # No id is given twice.


def test_equal_schemas_have_one_id_in_a_context() -> None:
    state = state_of(version("s", 1, 4), version(":.team:s", 1, 1))
    identity = Schema(AVRO, '"string"').identity
    assert (state.id_of(".", identity), state.id_of(".team", identity)) == (4, 1)
    assert state.contexts() == [".", ".team"]


def test_references_are_followed_to_their_users() -> None:
    state = state_of(
        version(":.team:a", 1, 1),
        version(":.team:b", 1, 2, '"int"', references=(Reference("A", "a", 1),)),
    )
    assert [user.subject for user in state.users_of(":.team:a", 1)] == [":.team:b"]
    state.replay(*version(":.team:b", 1, 2, '"int"', references=(Reference("A", "a", 1),), is_deleted=True))
    assert state.users_of(":.team:a", 1) == []


def test_settings_and_modes_come_and_go() -> None:
    state = state_of(config_record(None, {"compatibilityLevel": "FULL"}), mode_record("s", "READONLY"), noop_record())
    assert (state.configs, state.modes) == ({None: {"compatibilityLevel": "FULL"}}, {"s": "READONLY"})
    state.replay(*config_record(None, None))
    state.replay(*mode_record("s", None))
    assert (state.configs, state.modes) == ({}, {})


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"[]",
        b"{}",
        b'{"keytype":"ODD"}',
        b'{"keytype":"SCHEMA","subject":"s"}',
        b'{"keytype":"SCHEMA","subject":"s","version":"1"}',
        b"\xff",
    ],
)
def test_a_malformed_record_changes_nothing(key: bytes | None) -> None:
    state = state_of(version("s", 1, 1))
    with pytest.raises(MalformedRecord):
        state.replay(key, b"{}")
    assert [stored.version for stored in state.versions("s")] == [1]


@given(
    st.lists(
        st.one_of(
            st.builds(
                lambda subject, number, text, gone: version(subject, number, len(text), text, is_deleted=gone),
                st.sampled_from(["s", "t", ":.c:s"]),
                st.integers(1, 3),
                st.sampled_from(['"int"', '"string"', '"boolean"']),
                st.booleans(),
            ),
            st.builds(lambda subject, number: schema_record(subject, number, None), st.sampled_from("st"), st.just(1)),
            st.builds(delete_subject_record, st.sampled_from("st"), st.one_of(st.none(), st.integers(1, 3))),
        )
    )
)
def test_the_indexes_agree_with_the_versions(records: list[TopicRecord]) -> None:
    state = state_of(*records)
    for subject in state.subjects(deleted=True):
        for stored in state.versions(subject, deleted=True):
            context = ".c" if subject.startswith(":.c") else "."
            assert stored in state.places_of(context, stored.schema_id, deleted=True)
            assert state.id_of(context, stored.schema.identity) == stored.schema_id


def test_a_record_survives_being_written_and_read() -> None:
    schema = Schema("PROTOBUF", "x", (Reference("a.proto", "a", 1),), {"properties": {"k": "v"}}, {"domainRules": []})
    record = schema_record("s", 1, StoredVersion("s", 1, 9, schema))
    assert json.loads(record.value or b"")["schemaType"] == "PROTOBUF"
    assert state_of(record).version("s", 1) == StoredVersion("s", 1, 9, schema)
