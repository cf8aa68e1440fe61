"""The features of Kafka 4.3.1: their levels, the levels that a release finalizes, and their dependencies.

A feature's level 0 means "off" and is never stored. ``kraft.version`` is listed because nodes offer
it, but its level lives in a control record of the log, not in a FeatureLevelRecord.
"""

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.metadata.metadata_version import LATEST_PRODUCTION, MINIMUM, MetadataVersion

__all__ = [
    "CONFIG_ENCRYPTION",
    "ELIGIBLE_LEADER_REPLICAS_VERSION",
    "FEATURES",
    "GROUP_VERSION",
    "KRAFT_VERSION",
    "METADATA_VERSION",
    "NO_REPLICATION",
    "SHARE_VERSION",
    "STREAMS_VERSION",
    "SUPPORTED_FEATURES",
    "TRANSACTION_VERSION",
    "Feature",
    "VersionRange",
    "default_levels",
    "validate_dependencies",
]

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"

CONFIG_ENCRYPTION = "barnabas.config.encryption"
"""Never finalized: a node that can read encrypted configs offers this feature in its registration.

Kafka's controllers keep the names of unknown features, and require nothing of them.
"""

NO_REPLICATION = "barnabas.no.replication"
"""Likewise: a broker that offers this can only hold a partition as its sole replica, without followers."""


class VersionRange(NamedTuple):
    min: int
    max: int

    def contains(self, level: int) -> bool:
        return self.min <= level <= self.max

    def __str__(self) -> str:
        return str(self.min) if self.min == self.max else f"{self.min}-{self.max}"


class Feature(NamedTuple):
    """``bootstrap[n]`` is the metadata.version from which formatting finalizes level n + 1;
    ``needs[n]`` is the metadata.version without which level n + 1 is refused."""

    name: str
    bootstrap: tuple[MetadataVersion, ...]
    needs: tuple[MetadataVersion | None, ...] = ()

    @property
    def max_level(self) -> int:
        return len(self.bootstrap)

    def default_level(self, metadata_version: MetadataVersion) -> int:
        return sum(1 for since in self.bootstrap if metadata_version >= since)


FEATURES: Mapping[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature(ELIGIBLE_LEADER_REPLICAS_VERSION, (MetadataVersion.IBP_4_1_IV0,), (MetadataVersion.IBP_4_0_IV1,)),
        Feature(GROUP_VERSION, (MetadataVersion.IBP_4_0_IV0,)),
        Feature(KRAFT_VERSION, (MetadataVersion.IBP_3_9_IV0,)),
        Feature(SHARE_VERSION, (MetadataVersion.IBP_4_2_IV0,)),
        Feature(STREAMS_VERSION, (MetadataVersion.IBP_4_2_IV1,)),
        Feature(TRANSACTION_VERSION, (MetadataVersion.IBP_4_0_IV2, MetadataVersion.IBP_4_0_IV2)),
    )
}

SUPPORTED_FEATURES: Mapping[str, VersionRange] = {
    METADATA_VERSION: VersionRange(int(MINIMUM), int(LATEST_PRODUCTION)),
    **{name: VersionRange(0, feature.max_level) for name, feature in FEATURES.items()},
}
"""The features that this release offers in registrations and in ApiVersions."""


def default_levels(metadata_version: MetadataVersion) -> dict[str, int]:
    """Return the initial level of each feature in a cluster formatted at ``metadata_version``, zeros included."""
    return {name: feature.default_level(metadata_version) for name, feature in FEATURES.items()}


def validate_dependencies(name: str, level: int, metadata_version: int) -> None:
    """Raise ValueError if this metadata.version does not support ``level`` of the feature."""
    feature = FEATURES.get(name)
    if feature is None or level <= 0 or level > len(feature.needs):
        return
    needed = feature.needs[level - 1]
    if needed is not None and metadata_version < needed:
        raise ValueError(
            f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {int(needed)}"
        )
