"""The finalized level of each feature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from barnabas.common.errors import InvariantViolated, invariant
from barnabas.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.metadata.metadata_version import MetadataVersion
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord

__all__ = ["FeaturesDelta", "FeaturesImage"]


class FeaturesImage:
    """``finalized_versions`` has no metadata.version and no zeros; ``metadata_version`` is None before its record."""

    __slots__ = ("finalized_versions", "metadata_version")

    EMPTY: ClassVar[FeaturesImage]

    def __init__(self, finalized_versions: Mapping[str, int], metadata_version: MetadataVersion | None) -> None:
        self.finalized_versions = finalized_versions
        self.metadata_version = metadata_version

    def level(self, name: str) -> int:
        """The finalized level; 0 for a feature that is off or unknown."""
        if name == METADATA_VERSION:
            return 0 if self.metadata_version is None else int(self.metadata_version)
        return self.finalized_versions.get(name, 0)

    def all_levels(self) -> dict[str, int]:
        """Every finalized feature, metadata.version included."""
        levels = dict(self.finalized_versions)
        if self.metadata_version is not None:
            levels[METADATA_VERSION] = int(self.metadata_version)
        return levels

    def metadata_version_or_throw(self) -> MetadataVersion:
        if self.metadata_version is None:
            raise InvariantViolated("the image has no metadata.version yet")
        return self.metadata_version

    @property
    def is_elr_enabled(self) -> bool:
        return self.finalized_versions.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, FeaturesImage)
            and self.metadata_version == other.metadata_version
            and dict(self.finalized_versions) == dict(other.finalized_versions)
        )

    __hash__ = None  # type: ignore[assignment]

    def write(self, writer: RecordWriter) -> None:
        """metadata.version comes first: it decides how everything after it is read."""
        writer.write(FeatureLevelRecord(name=METADATA_VERSION, feature_level=int(writer.metadata_version)), 0)
        for name in sorted(self.finalized_versions):
            writer.write(FeatureLevelRecord(name=name, feature_level=self.finalized_versions[name]), 0)


FeaturesImage.EMPTY = FeaturesImage({}, None)


class FeaturesDelta:
    __slots__ = ("changes", "image", "metadata_version_change")

    def __init__(self, image: FeaturesImage) -> None:
        self.image = image
        self.changes: dict[str, int] = {}
        self.metadata_version_change: MetadataVersion | None = None

    def replay(self, record: FeatureLevelRecord) -> None:
        if record.name != METADATA_VERSION:
            self.changes[record.name] = record.feature_level
            return
        known = record.feature_level in MetadataVersion._value2member_map_
        invariant(known, f"metadata.version {record.feature_level} is not known to this release")
        self.metadata_version_change = MetadataVersion(record.feature_level)

    def finish_snapshot(self) -> None:
        for name in self.image.finalized_versions:
            self.changes.setdefault(name, 0)

    def apply(self) -> FeaturesImage:
        levels = {**self.image.finalized_versions, **self.changes}
        version = self.image.metadata_version if self.metadata_version_change is None else self.metadata_version_change
        return FeaturesImage({name: level for name, level in levels.items() if level > 0}, version)
