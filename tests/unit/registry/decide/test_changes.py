"""Requests for changes become records or errors, and change nothing themselves."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.registry.decide.changes import Change, ChangeRules, Changes, Registration
from barnabas.registry.decide.errors import RegistryError
from barnabas.registry.decide.registry_state import RegistryState
from barnabas.registry.decide.schema import AVRO, Reference, Schema

INT, TEXT = Schema(AVRO, '"int"'), Schema(AVRO, '"string"')


@pytest.fixture
def changes() -> Changes:
    return Changes(RegistryState())


def commit(changes: Changes, change: Change) -> Any:
    for record in change.records:
        changes.state.replay(record.key, record.value)
    return change.answer


def register(changes: Changes, subject: str, schema: Schema, **more: int) -> tuple[int, int]:
    """Return the id and the version."""
    wanted = Registration(subject, schema, more.get("schema_id"), more.get("version"))
    stored = changes.registered(wanted) or commit(changes, changes.register(wanted))
    return stored.schema_id, stored.version


def code_of(refused: pytest.ExceptionInfo[RegistryError]) -> int:
    return refused.value.code


def test_deciding_changes_nothing(changes: Changes) -> None:
    first = changes.register(Registration("s", INT))
    assert changes.register(Registration("s", INT)).records == first.records
    assert changes.state.versions("s") == []


def test_ids_are_shared_between_subjects_and_versions_count_from_one(changes: Changes) -> None:
    assert register(changes, "s", INT) == (1, 1)
    assert register(changes, "s", TEXT) == (2, 2)
    assert register(changes, "t", TEXT) == (2, 1)
    assert register(changes, "s", INT) == (1, 1)
    assert register(changes, ":.team:s", TEXT) == (1, 1)


def test_a_schema_that_comes_again_after_its_deletion_is_a_new_version(changes: Changes) -> None:
    register(changes, "s", INT)
    assert commit(changes, changes.delete_subject("s", permanent=False)) == [1]
    assert register(changes, "s", INT) == (1, 2)


def test_deletion_takes_two_steps(changes: Changes) -> None:
    register(changes, "s", INT)
    with pytest.raises(RegistryError) as refused:
        changes.delete_subject("s", permanent=True)
    assert code_of(refused) == 40405
    commit(changes, changes.delete_subject("s", permanent=False))
    with pytest.raises(RegistryError) as refused:
        changes.delete_subject("s", permanent=False)
    assert code_of(refused) == 40404
    assert commit(changes, changes.delete_subject("s", permanent=True)) == [1]
    with pytest.raises(RegistryError) as refused:
        changes.delete_subject("s", permanent=True)
    assert code_of(refused) == 40401


def test_deletion_of_a_version_takes_two_steps(changes: Changes) -> None:
    register(changes, "s", INT)
    register(changes, "s", TEXT)
    with pytest.raises(RegistryError) as refused:
        changes.delete_version("s", 2, permanent=True)
    assert code_of(refused) == 40407
    assert commit(changes, changes.delete_version("s", -1, permanent=False)) == 2
    with pytest.raises(RegistryError) as refused:
        changes.delete_version("s", 2, permanent=False)
    assert code_of(refused) == 40406
    assert commit(changes, changes.delete_version("s", 2, permanent=True)) == 2
    with pytest.raises(RegistryError) as refused:
        changes.delete_version("s", 2, permanent=True)
    assert code_of(refused) == 40402


def test_the_settings_of_a_subject_end_with_its_last_version(changes: Changes) -> None:
    register(changes, "s", INT)
    commit(changes, changes.set_config("s", {"compatibility": "full"}))
    commit(changes, changes.set_mode("s", "readwrite", force=False))
    commit(changes, changes.delete_version("s", 1, permanent=False))
    assert (changes.state.configs, changes.state.modes) == ({}, {})


def test_a_version_that_others_use_is_not_deleted(changes: Changes) -> None:
    register(changes, "a", INT)
    register(changes, "b", Schema(AVRO, '"A"', (Reference("A", "a", 1),)))
    for delete in (
        lambda: changes.delete_subject("a", permanent=False),
        lambda: changes.delete_version("a", 1, permanent=False),
    ):
        with pytest.raises(RegistryError) as refused:
            delete()
        assert code_of(refused) == 42206
    commit(changes, changes.delete_subject("b", permanent=False))
    assert commit(changes, changes.delete_subject("a", permanent=False)) == [1]


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
def test_a_read_only_registry_refuses_changes_but_not_that_of_its_mode(changes: Changes, mode: str) -> None:
    register(changes, "s", INT)
    commit(changes, changes.set_mode(None, mode, force=False))
    for change in (
        lambda: changes.registered(Registration("s", TEXT)),
        lambda: changes.delete_subject("s", permanent=False),
        lambda: changes.set_config(None, {"compatibility": "NONE"}),
    ):
        with pytest.raises(RegistryError) as refused:
            change()
        assert code_of(refused) == 42205
    commit(changes, changes.set_mode(None, "READWRITE", force=False))
    assert register(changes, "s", TEXT) == (2, 2)


def test_the_mode_of_a_subject_comes_before_the_global_one_unless_that_overrides(changes: Changes) -> None:
    commit(changes, changes.set_mode("s", "READWRITE", force=False))
    commit(changes, changes.set_mode(None, "READONLY", force=False))
    assert register(changes, "s", INT) == (1, 1)
    commit(changes, changes.set_mode(None, "READONLY_OVERRIDE", force=False))
    with pytest.raises(RegistryError):
        register(changes, "s", TEXT)


def test_ids_and_versions_are_imported(changes: Changes) -> None:
    with pytest.raises(RegistryError) as refused:
        register(changes, "s", INT, schema_id=10)
    assert code_of(refused) == 42205
    commit(changes, changes.set_mode("s", "IMPORT", force=False))
    assert register(changes, "s", INT, schema_id=10, version=3) == (10, 3)
    with pytest.raises(RegistryError) as refused:
        register(changes, "s", TEXT, schema_id=10, version=4)
    assert code_of(refused) == 42205
    assert not changes.is_checked("s")
    assert register(changes, "t", TEXT) == (11, 1)


def test_import_needs_an_empty_place_or_force(changes: Changes) -> None:
    register(changes, "s", INT)
    for subject in ("s", None):
        with pytest.raises(RegistryError) as refused:
            changes.set_mode(subject, "IMPORT", force=False)
        assert code_of(refused) == 42205
        assert changes.set_mode(subject, "IMPORT", force=True).records
    assert changes.set_mode(":.team:", "IMPORT", force=False).records


def test_settings_are_checked_and_combined(changes: Changes) -> None:
    commit(changes, changes.set_config(None, {"compatibility": "full_transitive"}))
    commit(changes, changes.set_config(None, {"normalize": True}))
    assert changes.state.configs[None] == {"compatibilityLevel": "FULL_TRANSITIVE", "normalize": True}
    for body in ({"compatibility": "SOME"}, {}, {"alias": "x"}, {"normalize": "yes"}):
        with pytest.raises(RegistryError) as refused:
            changes.set_config(None, body)
        assert code_of(refused) == 42203
    assert commit(changes, changes.delete_config(None)) == {"compatibilityLevel": "FULL_TRANSITIVE", "normalize": True}


def test_what_is_not_set_can_not_be_deleted(changes: Changes) -> None:
    with pytest.raises(RegistryError) as refused:
        changes.delete_config("s")
    assert code_of(refused) == 40408
    with pytest.raises(RegistryError) as refused:
        changes.delete_mode("s")
    assert code_of(refused) == 40409


def test_modes_stay_where_the_registry_forbids_changes() -> None:
    changes = Changes(RegistryState(), ChangeRules(may_modes_change=False))
    with pytest.raises(RegistryError) as refused:
        changes.set_mode(None, "READONLY", force=False)
    assert code_of(refused) == 42205
