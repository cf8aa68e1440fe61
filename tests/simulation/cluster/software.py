"""What nodes run: the newest software, or one that knows less; a cluster may mix them, and a node come back as another.

There is one program; an older one is it with fewer versions on the wire and a lower range of features, as its peers see
it. The versions are those of Kafka's releases.
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
    """The newest that it can work with."""
    versions: Mapping[ApiKey, int] = field(default_factory=dict)
    """The newest version of a request where that is older than ours; ``NOT_SERVED`` where there is none."""

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
        """The version that both know; below 0 when one of them does not know the request at all."""
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
