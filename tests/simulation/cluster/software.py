"""The software versions of nodes. A cluster may mix them, and a node may restart with another one.

All nodes run the same program. An older version is this program with fewer protocol versions and a lower range of
features. The versions are those of Kafka's releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.metadata.features import KRAFT_VERSION, METADATA_VERSION, SUPPORTED_FEATURES, VersionRange
from barnabas.metadata.metadata_version import LATEST_PRODUCTION, MetadataVersion
from barnabas.protocol.api_keys import ApiKey

__all__ = ["NEWEST", "SOFTWARE", "Software"]

NOT_SERVED = -1


@dataclass(frozen=True, slots=True)
class Software:
    name: str
    metadata_version: int
    """The newest metadata.version that it supports."""
    versions: Mapping[ApiKey, int] = field(default_factory=dict)
    """The newest supported version of each request for which it is older than ours, or ``NOT_SERVED``."""

    @property
    def kraft_version(self) -> int:
        return 0 if self.versions.get(ApiKey.ADD_RAFT_VOTER) == NOT_SERVED else 1

    @property
    def features(self) -> dict[str, VersionRange]:
        lowest = SUPPORTED_FEATURES[METADATA_VERSION].min
        return {
            **SUPPORTED_FEATURES,
            METADATA_VERSION: VersionRange(lowest, self.metadata_version),
            KRAFT_VERSION: VersionRange(0, self.kraft_version),
        }

    def version_with(self, peer: Software, key: ApiKey, newest: int) -> int:
        """Return the newest version that both support; below 0 if one of them does not support the request."""
        return min(newest, self.versions.get(key, newest), peer.versions.get(key, newest))


NEWEST = Software("newest", int(LATEST_PRODUCTION))
_BEFORE_PRE_VOTE = {ApiKey.VOTE: 1, ApiKey.FETCH: 17, ApiKey.ADD_RAFT_VOTER: 0}
_BEFORE_VOTERS_IN_THE_LOG = {
    ApiKey.VOTE: 0,
    ApiKey.FETCH: 16,
    ApiKey.BEGIN_QUORUM_EPOCH: 0,
    ApiKey.END_QUORUM_EPOCH: 0,
    ApiKey.FETCH_SNAPSHOT: 0,
    ApiKey.ADD_RAFT_VOTER: NOT_SERVED,
    ApiKey.REMOVE_RAFT_VOTER: NOT_SERVED,
    ApiKey.UPDATE_RAFT_VOTER: NOT_SERVED,
}
SOFTWARE = {
    software.name: software
    for software in (
        NEWEST,
        Software("4.0", int(MetadataVersion.IBP_4_0_IV3), {ApiKey.FETCH: 17, ApiKey.ADD_RAFT_VOTER: 0}),
        Software("3.9", int(MetadataVersion.IBP_3_9_IV0), _BEFORE_PRE_VOTE),
        Software("3.7", int(MetadataVersion.IBP_3_7_IV4), _BEFORE_VOTERS_IN_THE_LOG),
    )
}
