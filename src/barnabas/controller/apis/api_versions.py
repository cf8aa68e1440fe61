"""ApiVersions on the controller: the APIs of its listener, and the features in the log. Requires no permission."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.client_software import is_client_software
from barnabas.common.errors import ErrorCode
from barnabas.coordinator.deferred import Deferred
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL: tuple[AclRule, ...] = ()

_ABSENT_FEATURES_SINCE = 4


def handle(
    controller: QuorumController, context: RequestContext, request: ApiVersionsRequest, authorizer: Authorizer
) -> Deferred[ApiVersionsResponse]:
    name, version = request.client_software_name, request.client_software_version
    if not is_client_software(name, version, api_version=context.api_version):
        return Deferred.completed(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
    image = controller.committed_image
    return Deferred.completed(
        ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in sorted(controller.config.served.items())
            ],
            supported_features=[
                SupportedFeatureKey(name=name, min_version=levels.min, max_version=levels.max)
                for name, levels in sorted(controller.config.supported_features.items())
                if levels.min > 0 or context.api_version >= _ABSENT_FEATURES_SINCE
            ],
            finalized_features_epoch=image.offset,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in sorted(controller.features.with_kraft_version(image.features).items())
                if level > 0
            ],
        )
    )
