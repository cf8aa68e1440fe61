"""The levels of ``metadata.version``, and the records that each one allows.

A reader that meets a record it does not know stops, so a writer never writes above the finalized
level. Level 7 (3.3-IV3) is the oldest that this release reads and 30 (4.3-IV0) the newest that is
stable; 31 is known, as in Kafka 4.3.1, but not offered.
"""

from enum import IntEnum

__all__ = ["LATEST_PRODUCTION", "MINIMUM", "MetadataVersion"]


class MetadataVersion(IntEnum):
    IBP_3_3_IV3 = 7
    IBP_3_4_IV0 = 8
    IBP_3_5_IV0 = 9
    IBP_3_5_IV1 = 10
    IBP_3_5_IV2 = 11
    IBP_3_6_IV0 = 12
    IBP_3_6_IV1 = 13
    IBP_3_6_IV2 = 14
    IBP_3_7_IV0 = 15
    IBP_3_7_IV1 = 16
    IBP_3_7_IV2 = 17
    IBP_3_7_IV3 = 18
    IBP_3_7_IV4 = 19
    IBP_3_8_IV0 = 20
    IBP_3_9_IV0 = 21
    IBP_4_0_IV0 = 22
    IBP_4_0_IV1 = 23
    IBP_4_0_IV2 = 24
    IBP_4_0_IV3 = 25
    IBP_4_1_IV0 = 26
    IBP_4_1_IV1 = 27
    IBP_4_2_IV0 = 28
    IBP_4_2_IV1 = 29
    IBP_4_3_IV0 = 30
    IBP_4_4_IV0 = 31

    @property
    def release(self) -> str:
        """``4.3`` for every level of that release."""
        _, major, minor, _ = self.name.split("_")
        return f"{major}.{minor}"

    def __str__(self) -> str:
        """Kafka's name of the level, such as ``4.3-IV0``."""
        return f"{self.release}-{self.name.rsplit('_', 1)[1]}"

    @property
    def did_metadata_change(self) -> bool:
        """Whether this level added records that an older reader would lose."""
        return self in _LEVELS_WITH_A_METADATA_CHANGE

    @property
    def is_scram_supported(self) -> bool:
        return self >= MetadataVersion.IBP_3_5_IV2

    @property
    def is_leader_epoch_bump_on_isr_shrink(self) -> bool:
        return self < MetadataVersion.IBP_3_6_IV0

    @property
    def is_metadata_transaction_supported(self) -> bool:
        return self >= MetadataVersion.IBP_3_6_IV1

    @property
    def is_delegation_token_supported(self) -> bool:
        return self >= MetadataVersion.IBP_3_6_IV2

    @property
    def is_controller_registration_supported(self) -> bool:
        return self >= MetadataVersion.IBP_3_7_IV0

    @property
    def is_directory_assignment_supported(self) -> bool:
        return self >= MetadataVersion.IBP_3_7_IV2

    @property
    def is_elr_supported(self) -> bool:
        return self >= MetadataVersion.IBP_4_0_IV1

    @property
    def is_cordoned_log_dirs_supported(self) -> bool:
        return self >= MetadataVersion.IBP_4_3_IV0

    @property
    def register_broker_record_version(self) -> int:
        if self >= MetadataVersion.IBP_4_3_IV0:
            return 4
        if self >= MetadataVersion.IBP_3_7_IV2:
            return 3
        return 2 if self >= MetadataVersion.IBP_3_4_IV0 else 1

    @property
    def partition_record_version(self) -> int:
        """The version of PartitionRecord and of PartitionChangeRecord."""
        if self.is_elr_supported:
            return 2
        return 1 if self.is_directory_assignment_supported else 0

    @classmethod
    def from_version_string(cls, text: str) -> "MetadataVersion":
        """Parse ``4.3-IV0``, or ``4.3`` (also ``4.3.1``) for the newest stable level of that release.

        Raises ValueError for a release that is unknown, too old, or not stable yet.
        """
        for version in cls:
            if str(version) == text:
                return version
        release = ".".join(text.split("-")[0].split(".")[:2])
        if "-" not in text:
            levels = [version for version in cls if version.release == release and version <= LATEST_PRODUCTION]
            if levels:
                return levels[-1]
        raise ValueError(
            f"Unknown metadata.version '{text}'. Supported metadata.version are: "
            + ", ".join(str(version) for version in cls if version <= LATEST_PRODUCTION)
        )


MINIMUM = MetadataVersion.IBP_3_3_IV3
LATEST_PRODUCTION = MetadataVersion.IBP_4_3_IV0

_LEVELS_WITH_A_METADATA_CHANGE = frozenset(
    {
        MetadataVersion.IBP_3_4_IV0,
        MetadataVersion.IBP_3_5_IV2,
        MetadataVersion.IBP_3_6_IV1,
        MetadataVersion.IBP_3_6_IV2,
        MetadataVersion.IBP_3_7_IV0,
        MetadataVersion.IBP_3_7_IV2,
        MetadataVersion.IBP_4_0_IV1,
        MetadataVersion.IBP_4_3_IV0,
    }
)
