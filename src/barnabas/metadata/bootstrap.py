"""The records that a new cluster starts with.

``bootstrap.checkpoint`` holds them in every formatted directory; the first active controller writes them
to the empty log. metadata.version comes first, the other finalized features follow by name, then SCRAM
credentials. kraft.version is not among them, because it is a control record of the quorum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.metadata.features import (
    FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    default_levels,
    validate_dependencies,
)
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.metadata_version import LATEST_PRODUCTION, MetadataVersion
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord

__all__ = ["bootstrap_records", "effective_levels", "metadata_version_of"]


def effective_levels(metadata_version: MetadataVersion, overrides: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the level of each feature, kraft.version included; ``overrides`` have precedence.

    Raises ValueError for an unknown feature, an unsupported level, or one that the release cannot carry.
    """
    levels = default_levels(metadata_version)
    for name, level in (overrides or {}).items():
        if name == METADATA_VERSION:
            continue
        if name not in FEATURES:
            raise ValueError(f"Unsupported feature: {name}. Supported features are: {', '.join(SUPPORTED_FEATURES)}")
        if not SUPPORTED_FEATURES[name].contains(level):
            raise ValueError(f"No feature:{name} with feature level {level}")
        levels[name] = level
    for name, level in levels.items():
        validate_dependencies(name, level, metadata_version)
    return levels


def bootstrap_records(
    metadata_version: MetadataVersion = LATEST_PRODUCTION,
    feature_levels: Mapping[str, int] | None = None,
    scram_credentials: Sequence[UserScramCredentialRecord] = (),
) -> list[ApiMessageAndVersion]:
    """``feature_levels`` overrides the release's defaults; a feature at level 0 needs no record."""
    levels = effective_levels(metadata_version, feature_levels)
    records: list[ApiMessageAndVersion] = [
        ApiMessageAndVersion(FeatureLevelRecord(name=METADATA_VERSION, feature_level=int(metadata_version)), 0)
    ]
    records.extend(
        ApiMessageAndVersion(FeatureLevelRecord(name=name, feature_level=levels[name]), 0)
        for name in sorted(levels)
        if name != KRAFT_VERSION and levels[name] > 0
    )
    if scram_credentials and not metadata_version.is_scram_supported:
        raise ValueError("SCRAM is only supported in metadata.version 3.5-IV2 or later.")
    records.extend(ApiMessageAndVersion(credential, 0) for credential in scram_credentials)
    return records


def metadata_version_of(records: Sequence[object]) -> MetadataVersion:
    """Return the level that bootstrap messages finalize; the oldest supported one if they name none."""
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            return MetadataVersion(record.feature_level)
    return MetadataVersion.IBP_3_3_IV3
