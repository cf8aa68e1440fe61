"""Which versions a level concerns, in which direction, and where a level is looked up."""

from __future__ import annotations

import pytest

from barnabas.registry.decide.levels import Level, level_in_scope, problems_with, versions_to_check
from barnabas.registry.decide.registry_state import RegistryState
from barnabas.registry.decide.schema import AVRO, Schema
from barnabas.registry.decide.topic_records import StoredVersion, config_record


class Numbered:
    """A schema that reads all schemas with a lower or equal number."""

    def __init__(self, number: int) -> None:
        self.canonical = str(number)
        self.number = number

    def problems_reading(self, writer: Numbered) -> list[str]:
        return [] if self.number >= writer.number else [f"{self.number} can't read {writer.number}"]


VERSIONS = [StoredVersion("s", number, number, Schema(AVRO, str(number))) for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("level", "checked"),
    [
        ("NONE", []),
        ("BACKWARD", [3]),
        ("FORWARD", [3]),
        ("FULL", [3]),
        ("BACKWARD_TRANSITIVE", [3, 2, 1]),
        ("FORWARD_TRANSITIVE", [3, 2, 1]),
        ("FULL_TRANSITIVE", [3, 2, 1]),
    ],
)
def test_only_transitive_levels_look_at_all_versions(level: str, checked: list[int]) -> None:
    assert [stored.version for stored in versions_to_check(Level(level), VERSIONS)] == checked
    assert versions_to_check(Level(level), []) == []


@pytest.mark.parametrize(
    ("level", "newer_fits", "older_fits"),
    [("BACKWARD", True, False), ("FORWARD", False, True), ("FULL", False, False), ("NONE", True, True)],
)
def test_a_level_says_who_reads_whose_data(level: str, newer_fits: bool, older_fits: bool) -> None:
    newer, older, stored = Numbered(5), Numbered(1), VERSIONS[0]
    assert (problems_with(Level(level), newer, stored, Numbered(3)) == []) == newer_fits
    assert (problems_with(Level(level), older, stored, Numbered(3)) == []) == older_fits


def test_problems_name_the_version_and_the_level() -> None:
    found = problems_with(Level.BACKWARD, Numbered(1), VERSIONS[1], Numbered(2))
    assert found == [
        "1 can't read 2",
        "{oldSchemaVersion: 2}",
        "{oldSchema: '2'}",
        "{compatibility: 'BACKWARD'}",
    ]


def test_the_nearest_level_applies() -> None:
    state = RegistryState()

    def level(subject: str | None) -> str:
        return level_in_scope(state, subject, Level.BACKWARD).value

    assert level("s") == level(None) == "BACKWARD"
    for place, name in ((None, "FULL"), (":.team:", "FORWARD"), (":.team:s", "NONE")):
        state.replay(*config_record(place, {"compatibilityLevel": name}))
    assert (level("s"), level(":.team:t"), level(":.team:s"), level(":.other:s")) == ("FULL", "FORWARD", "NONE", "FULL")
