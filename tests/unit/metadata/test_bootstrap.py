from __future__ import annotations

import pytest

from barnabas.metadata.bootstrap import bootstrap_records, effective_levels, metadata_version_of
from barnabas.metadata.metadata_version import MetadataVersion
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord

ALICE = UserScramCredentialRecord(
    name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
)


def test_metadata_version_comes_first_then_features_by_name_then_credentials() -> None:
    records = [message for message, _ in bootstrap_records(scram_credentials=[ALICE])]
    assert records == [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="share.version", feature_level=1),
        FeatureLevelRecord(name="streams.version", feature_level=1),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
        ALICE,
    ]
    assert metadata_version_of(records) == 30


def test_a_feature_that_is_turned_off_needs_no_record() -> None:
    records = bootstrap_records(feature_levels={"share.version": 0, "transaction.version": 1})
    levels = {message.name: message.feature_level for message, _ in records}
    assert levels["transaction.version"] == 1
    assert "share.version" not in levels
    assert "kraft.version" not in levels


@pytest.mark.parametrize(
    ("release", "overrides", "reason"),
    [
        (30, {"nope.version": 1}, "Unsupported feature: nope.version"),
        (30, {"group.version": 7}, "No feature:group.version with feature level 7"),
        (22, {"eligible.leader.replicas.version": 1}, r"depends on metadata\.version level 23"),
    ],
)
def test_impossible_levels_are_refused(release: int, overrides: dict[str, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        effective_levels(MetadataVersion(release), overrides)


def test_credentials_need_a_release_that_has_them() -> None:
    with pytest.raises(ValueError, match="3.5-IV2 or later"):
        bootstrap_records(MetadataVersion.IBP_3_5_IV1, scram_credentials=[ALICE])


def test_records_without_a_level_have_the_oldest_level() -> None:
    assert metadata_version_of([ALICE]) == MetadataVersion.IBP_3_3_IV3
