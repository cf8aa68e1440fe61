"""IncrementalAlterConfigs: sets, deletes, appends to and subtracts from single configs (KIP-133, KIP-339)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.config_alteration import ConfigChange, alter_configs
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiError
from barnabas.common.resource import ResourceType
from barnabas.metadata.alter_configs_results import resource_answer
from barnabas.metadata.config_operations import ConfigOperation
from barnabas.metadata.image.configs import ConfigResource
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.broker import Broker
    from barnabas.common.errors import ApiException


def _error_response(request: IncrementalAlterConfigsRequest, error: ApiException) -> IncrementalAlterConfigsResponse:
    failure = ApiError.of(error)
    return _response(
        (ConfigResource(resource.resource_type, resource.resource_name), failure) for resource in request.resources
    )


@handles(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.ALTER_CONFIGS),),
    on_error=_error_response,
)
async def handle_incremental_alter_configs(
    broker: Broker, request: IncrementalAlterConfigsRequest, access: Access
) -> IncrementalAlterConfigsResponse:
    changes = [_change(resource) for resource in request.resources]
    return _response(await alter_configs(broker, request, changes, access))


def _change(resource: AlterConfigsResource) -> ConfigChange:
    operations = [ConfigOperation(config.name, config.config_operation, config.value) for config in resource.configs]
    return ConfigChange(ConfigResource(resource.resource_type, resource.resource_name), operations, replaces=False)


def _response(answers: Iterable[tuple[ConfigResource, ApiError]]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[resource_answer(AlterConfigsResourceResponse, *answer) for answer in answers]
    )
