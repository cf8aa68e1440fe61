"""ApiVersions: the APIs and features that this broker supports, and the finalized features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding import common_versions
from barnabas.common.client_software import is_client_software
from barnabas.common.errors import ErrorCode
from barnabas.metadata.features import (
    GROUP_VERSION,
    KRAFT_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_NEEDED_APIS = {
    GROUP_VERSION: ApiKey.CONSUMER_GROUP_HEARTBEAT,
    TRANSACTION_VERSION: ApiKey.ADD_PARTITIONS_TO_TXN,
    SHARE_VERSION: ApiKey.SHARE_GROUP_HEARTBEAT,
    STREAMS_VERSION: ApiKey.STREAMS_GROUP_HEARTBEAT,
}
"""An API of each feature. A feature is offered only if this broker serves the API: clients use it if they find it.

The metadata log has the levels of all features, because a directory can move to and from Kafka, which finalizes them.
"""


@handles(ApiKey.API_VERSIONS)
def handle_api_versions(broker: Broker, request: ApiVersionsRequest, access: Access) -> ApiVersionsResponse:
    """Answer without authorization: a client sends this request before it has a principal."""
    version = access.context.api_version
    if not is_client_software(request.client_software_name, request.client_software_version, api_version=version):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    finalized = {**broker.metadata.image.features.all_levels(), KRAFT_VERSION: broker.kraft_version()}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(common_versions(broker.served, broker.controller.versions()).items())
        ],
        supported_features=[
            # Versions below 4 cannot express that a feature may be absent (minimum 0): such features are omitted.
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in sorted(broker.supported_features.items())
            if (low > 0 or version >= 4) and is_offered(broker, name)
        ],
        finalized_features_epoch=broker.metadata.image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(finalized.items())
            if level > 0 and is_offered(broker, name)
        ],
    )


def is_offered(broker: Broker, feature: str) -> bool:
    """Return whether the broker serves the APIs that clients of the feature use."""
    needed = _NEEDED_APIS.get(feature)
    return needed is None or needed in broker.served
