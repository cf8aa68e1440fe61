"""Features of the cluster and the levels that are in use (``metadata.version`` ...)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from barnabas import __version__
from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Operations, refuse_unless
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import RETRIED, Deadline
from barnabas.clients.admin.routing import ANY, Target, broker
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdatableFeatureResult, UpdateFeaturesRequest

__all__ = ["FeatureMetadata", "FeatureOperations", "FeatureUpdate", "UpgradeType", "VersionRange"]


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A feature's new level; 0 disables it, which is a downgrade."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class VersionRange:
    min: int
    max: int


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """Levels that the cluster uses (``finalized``) and a node ``supports``. The epoch is None if unknown."""

    finalized: Mapping[str, VersionRange]
    finalized_epoch: int | None
    supported: Mapping[str, VersionRange]


class FeatureOperations(Operations):
    async def describe_features(self, *, timeout_s: float | None = None) -> FeatureMetadata:
        return await self._features(self._deadline(timeout_s), ANY)

    async def describe_features_of_brokers(self, *, timeout_s: float | None = None) -> dict[int, FeatureMetadata]:
        """Return the answer of every live broker: they differ where a broker does not support a feature."""
        deadline = self._deadline(timeout_s)
        return {node: await self._features(deadline, broker(node)) for node in await self._live_brokers(deadline)}

    async def _features(self, deadline: Deadline, target: Target) -> FeatureMetadata:
        response = await self._call(
            lambda version: _versions_request(),
            deadline,
            api=ApiKey.API_VERSIONS,
            target=target,
            at_least=3,
        )
        epoch = response.finalized_features_epoch
        return FeatureMetadata(
            {
                feature.name: VersionRange(feature.min_version_level, feature.max_version_level)
                for feature in response.finalized_features
            },
            epoch if epoch >= 0 else None,
            {
                feature.name: VersionRange(feature.min_version, feature.max_version)
                for feature in response.supported_features
            },
        )

    async def update_features(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Results[str, None]:
        """Change levels: all of them, or none. An error of the request is the error of each feature.

        ``wait`` waits until every live broker returns the new levels.
        """
        for name, update in updates.items():
            refuse_unless(name, "a feature needs a name")
            refuse_unless(
                update.max_version_level > 0 or update.upgrade_type != UpgradeType.UPGRADE,
                f"{name}: level {update.max_version_level} is not an upgrade",
            )
        deadline = self._deadline(timeout_s)
        try:
            response = await self._call(
                lambda version: UpdateFeaturesRequest(
                    timeout_ms=self._timeout_ms(deadline),
                    feature_updates=[_update(name, update, version) for name, update in updates.items()],
                    validate_only=validate_only,
                ),
                deadline,
                api=ApiKey.UPDATE_FEATURES,
            )
        except AdminError as error:
            if error.code in RETRIED or error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
                raise
            return Results({}, {name: admin_error(error.code, error.message, name) for name in updates})
        errors = {result.feature: _error(result) for result in response.results if result.error_code}
        if wait and not validate_only and not errors:
            await self._until_levels_show(updates, deadline)
        return Results(dict.fromkeys(name for name in updates if name not in errors), errors)

    async def _until_levels_show(self, updates: Mapping[str, FeatureUpdate], deadline: Deadline) -> None:
        async def shows(target: Target) -> bool:
            found = await self._features(deadline, target)
            levels = {name: level.max for name, level in found.finalized.items()}
            # A broker that does not support a feature never shows its level.
            served = [name for name in updates if name in found.supported or name in levels]
            return all(levels.get(name, 0) == updates[name].max_version_level for name in served)

        await self._until_each_broker(shows, deadline, "updating features")


def _versions_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)


def _update(name: str, update: FeatureUpdate, version: int) -> FeatureUpdateKey:
    key = FeatureUpdateKey(feature=name, max_version_level=update.max_version_level)
    if version == 0:
        key.allow_downgrade = update.upgrade_type != UpgradeType.UPGRADE
    else:
        key.upgrade_type = update.upgrade_type
    return key


def _error(result: UpdatableFeatureResult) -> AdminError:
    return admin_error(result.error_code, result.error_message, result.feature)
