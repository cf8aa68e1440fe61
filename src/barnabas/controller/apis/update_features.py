"""UpdateFeatures: ALTER on the cluster. One feature that cannot be updated fails all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_on_cluster
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.feature_control_manager import UpgradeType
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.ALTER),)

_ALL_FAILED = "The update failed for all features since the following feature had an error: "
_LAST_VERSION_WITH_RESULTS = 1


def handle(
    controller: QuorumController, context: RequestContext, request: UpdateFeaturesRequest, authorizer: Authorizer
) -> Deferred[UpdateFeaturesResponse]:
    def decide() -> ControllerResult[UpdateFeaturesResponse]:
        require_on_cluster(authorizer, context, AclOperation.ALTER)
        updates = {
            update.feature: (update.max_version_level, _upgrade_type(context.api_version, update))
            for update in request.feature_updates
        }
        result = controller.features.update_features(updates, validate_only=request.validate_only)
        response = UpdateFeaturesResponse(error_message=None)
        if context.api_version <= _LAST_VERSION_WITH_RESULTS:
            # Kafka writes the name of error 0 where a message would be; tools of that time print it.
            response.results = [UpdatableFeatureResult(feature=name, error_message="NONE") for name in updates]
        return result.with_response(response)

    def answer_error(error: ApiException) -> UpdateFeaturesResponse:
        message = error.message
        if error.code == ErrorCode.INVALID_UPDATE_VERSION:
            message = f"{_ALL_FAILED}{message}"
        return UpdateFeaturesResponse(error_code=int(error.code), error_message=message)

    return controller.submit(decide, answer_error)


def _upgrade_type(api_version: int, update: FeatureUpdateKey) -> UpgradeType:
    if api_version == 0:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return UpgradeType.of(update.upgrade_type)
