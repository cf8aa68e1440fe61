from __future__ import annotations

import pytest

from barnabas.metadata.features import SUPPORTED_FEATURES, default_levels, validate_dependencies
from barnabas.metadata.metadata_version import LATEST_PRODUCTION, MetadataVersion


def test_the_newest_stable_level_is_that_of_4_3() -> None:
    assert (int(LATEST_PRODUCTION), str(LATEST_PRODUCTION)) == (30, "4.3-IV0")
    assert [int(version) for version in MetadataVersion] == list(range(7, 32))


@pytest.mark.parametrize(
    ("text", "level"), [("4.3-IV0", 30), ("4.3", 30), ("4.3.1", 30), ("4.0", 25), ("3.7", 19), ("3.3", 7)]
)
def test_a_release_means_its_newest_level(text: str, level: int) -> None:
    assert MetadataVersion.from_version_string(text) == level


@pytest.mark.parametrize("text", ["3.2", "4.4", "banana", "", "4.3-IV9"])
def test_an_unknown_release_is_refused_with_what_is_known(text: str) -> None:
    with pytest.raises(ValueError, match=r"3\.3-IV3, .*4\.3-IV0"):
        MetadataVersion.from_version_string(text)


@pytest.mark.parametrize(
    ("level", "register_broker", "partition"),
    [(7, 1, 0), (8, 2, 0), (16, 2, 0), (17, 3, 1), (22, 3, 1), (23, 3, 2), (29, 3, 2), (30, 4, 2), (31, 4, 2)],
)
def test_record_versions_follow_the_level(level: int, register_broker: int, partition: int) -> None:
    version = MetadataVersion(level)
    assert version.register_broker_record_version == register_broker
    assert version.partition_record_version == partition


FEATURES = ("kraft", "transaction", "group", "eligible.leader.replicas", "share", "streams")


@pytest.mark.parametrize(
    ("release", "levels"),
    [
        ("3.3-IV3", (0, 0, 0, 0, 0, 0)),
        ("3.7", (0, 0, 0, 0, 0, 0)),
        ("3.9", (1, 0, 0, 0, 0, 0)),
        ("4.0-IV1", (1, 0, 1, 0, 0, 0)),
        ("4.0-IV2", (1, 2, 1, 0, 0, 0)),
        ("4.0", (1, 2, 1, 0, 0, 0)),
        ("4.1-IV0", (1, 2, 1, 1, 0, 0)),
        ("4.2-IV0", (1, 2, 1, 1, 1, 0)),
        ("4.2", (1, 2, 1, 1, 1, 1)),
        ("4.4-IV0", (1, 2, 1, 1, 1, 1)),
    ],
)
def test_levels_by_release_are_those_of_kafkas_version_mapping(release: str, levels: tuple[int, ...]) -> None:
    expected = {f"{name}.version": level for name, level in zip(FEATURES, levels, strict=True)}
    assert default_levels(MetadataVersion.from_version_string(release)) == expected


def test_a_release_finalizes_the_features_of_its_time() -> None:
    assert default_levels(LATEST_PRODUCTION) == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "kraft.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert set(default_levels(MetadataVersion.IBP_3_8_IV0).values()) == {0}
    assert default_levels(MetadataVersion.IBP_4_0_IV3)["eligible.leader.replicas.version"] == 0


def test_offered_ranges_are_those_of_4_3_1() -> None:
    assert {name: str(levels) for name, levels in SUPPORTED_FEATURES.items()} == {
        "metadata.version": "7-30",
        "kraft.version": "0-1",
        "group.version": "0-1",
        "share.version": "0-1",
        "streams.version": "0-1",
        "transaction.version": "0-2",
        "eligible.leader.replicas.version": "0-1",
    }


def test_eligible_leader_replicas_need_their_records() -> None:
    validate_dependencies("eligible.leader.replicas.version", 1, 23)
    with pytest.raises(ValueError, match=r"depends on metadata\.version level 23"):
        validate_dependencies("eligible.leader.replicas.version", 1, 22)
