"""Decide changes of finalized feature levels.

An update of several features succeeds for all or for none. A level must be supported by this controller,
by every registered broker and by every registered controller. kraft.version is not finalized by a metadata
record; it can be read here but is changed by the quorum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    VersionRange,
    validate_dependencies,
)
from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType
from barnabas.metadata.image.features import FeaturesImage
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.metadata_version import MetadataVersion
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord

__all__ = ["FeatureControlManager", "UpgradeType"]

_MIN_ISR = "min.insync.replicas"


def quorum_cannot_be_upgraded(level: int, validate_only: bool) -> None:
    raise _invalid(KRAFT_VERSION, level, "This controller was built without a replica of the metadata log.")


class UpgradeType(IntEnum):
    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3

    @classmethod
    def of(cls, code: int) -> UpgradeType:
        return cls(code) if code in cls._value2member_map_ else cls.UNKNOWN


class FeatureControlManager:
    """``kraft_version`` is set by the follower of the quorum's control records."""

    def __init__(
        self,
        state: ControllerState,
        config: ControllerConfig,
        upgrade_quorum: Callable[[int, bool], None] = quorum_cannot_be_upgraded,
    ) -> None:
        self._state = state
        self._config = config
        self._upgrade_quorum = upgrade_quorum
        self.kraft_version = 0

    @property
    def metadata_version(self) -> MetadataVersion:
        return self._state.image.features.metadata_version_or_throw()

    def finalized_levels(self) -> dict[str, int]:
        """Return every finalized feature with its level, kraft.version included once it is above 0."""
        return self.with_kraft_version(self._state.image.features)

    def with_kraft_version(self, features: FeaturesImage) -> dict[str, int]:
        levels = features.all_levels()
        if self.kraft_version > 0:
            levels[KRAFT_VERSION] = self.kraft_version
        return levels

    def update_features(
        self, updates: Mapping[str, tuple[int, UpgradeType]], *, validate_only: bool = False
    ) -> ControllerResult[None]:
        """Decide the update. Raises ApiException with the reason of the first feature that cannot be updated."""
        proposed = self.finalized_levels()
        proposed.update({name: level for name, (level, _) in updates.items()})
        records: list[ApiMessageAndVersion] = []
        for name, (level, upgrade_type) in updates.items():
            records.extend(self._update(name, level, upgrade_type, proposed))
        if KRAFT_VERSION in updates and updates[KRAFT_VERSION][0] > self.kraft_version:
            self._upgrade_quorum(updates[KRAFT_VERSION][0], validate_only)  # Last: it can't be undone.
        result = ControllerResult[None](records, None)
        return result.without_records() if validate_only else result

    def _update(
        self, name: str, level: int, upgrade_type: UpgradeType, proposed: Mapping[str, int]
    ) -> list[ApiMessageAndVersion]:
        current = self.finalized_levels().get(name, 0)
        if upgrade_type == UpgradeType.UNKNOWN:
            raise _invalid(name, level, "The controller does not support the given upgrade type.")
        if level < 0:
            raise _invalid(name, level, "A feature version cannot be less than 0.")
        reason = self._reason_not_supported(name, level)
        if reason is not None:
            raise _invalid(name, level, reason)
        if name not in FEATURES and name != METADATA_VERSION:
            raise _invalid(name, level, f"Feature {name} not found.")
        if level < current and upgrade_type == UpgradeType.UPGRADE:
            raise _invalid(
                name,
                level,
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
                "unsafe downgrade.",
            )
        if level > current and upgrade_type != UpgradeType.UPGRADE:
            raise _invalid(name, level, "Can't downgrade to a newer version.")
        if name == KRAFT_VERSION:
            return self._update_kraft_version(level, current)
        if name == METADATA_VERSION:
            self._validate_metadata_version(level, upgrade_type)
        else:
            try:
                validate_dependencies(name, level, proposed.get(METADATA_VERSION, 0))
            except ValueError as error:
                raise _invalid(name, level, str(error)) from error
        records = []
        if name == ELIGIBLE_LEADER_REPLICAS_VERSION and level > current == 0:
            records.extend(self._elr_safety_records())
        records.append(ApiMessageAndVersion(FeatureLevelRecord(name=name, feature_level=level), 0))
        return records

    def _update_kraft_version(self, level: int, current: int) -> list[ApiMessageAndVersion]:
        if level < current:
            raise _invalid(KRAFT_VERSION, level, "Can't downgrade the version of this feature.")
        return []

    def _validate_metadata_version(self, level: int, upgrade_type: UpgradeType) -> None:
        current = int(self.metadata_version)
        if level not in MetadataVersion._value2member_map_:
            raise _invalid(METADATA_VERSION, level, "Unknown metadata.version.")
        crossed = [v for v in MetadataVersion if level < v <= current and v.did_metadata_change]
        if not crossed:
            return
        if upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
            reason = "Unsafe metadata downgrade is not supported in this version."
        else:
            reason = "Refusing to perform the requested downgrade because it might delete metadata information."
        raise ApiException(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Unsupported metadata.version downgrade from {current} to {level}. {reason}",
        )

    def _reason_not_supported(self, name: str, level: int) -> str | None:
        cluster = self._state.image.cluster
        local = f"Local controller {self._config.node_id}"
        reason = _unsupported(local, self._config.supported_features.get(name), level)
        if reason is not None:
            return reason
        for broker in cluster.brokers.values():
            reason = _unsupported(f"Broker {broker.id}", broker.features.get(name), level)
            if reason is not None:
                return reason
        for controller in cluster.controllers.values():
            if controller.id != self._config.node_id:
                reason = _unsupported(f"Controller {controller.id}", controller.features.get(name), level)
                if reason is not None:
                    return reason
        return None

    def _elr_safety_records(self) -> list[ApiMessageAndVersion]:
        """Set min.insync.replicas for the cluster and drop the brokers' own: with ELR all must agree on one value."""
        records = []
        configs = self._state.image.configs
        if _MIN_ISR not in configs.of_all_brokers():
            records.append(_min_isr_record("", str(self._config.min_insync_replicas)))
        records.extend(
            _min_isr_record(name, None)
            for name in sorted(configs.names(int(ConfigResourceType.BROKER)))
            if name and _MIN_ISR in configs.of(ConfigResource(int(ConfigResourceType.BROKER), name))
        )
        return records


def _min_isr_record(resource_name: str, value: str | None) -> ApiMessageAndVersion:
    record = ConfigRecord(
        resource_type=int(ConfigResourceType.BROKER), resource_name=resource_name, name=_MIN_ISR, value=value
    )
    return ApiMessageAndVersion(record, 0)


def _unsupported(who: str, levels: VersionRange | None, level: int) -> str | None:
    if levels is None:
        return f"{who} does not support this feature." if level > 0 else None
    return None if levels.contains(level) else f"{who} only supports versions {levels}"


def _invalid(name: str, level: int, reason: str) -> ApiException:
    return ApiException(
        ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {reason}"
    )
