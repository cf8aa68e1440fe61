"""DescribeClientQuotas: the quotas of the entities that match a filter, from the image.

A component matches one name of an entity type (exact), the type's default, or any name. An entity matches when
it matches every component. With ``strict`` it must not have any other entity type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.broker import Broker
    from barnabas.metadata.image.client_quotas import QuotaEntity
    from barnabas.protocol.messages.describe_client_quotas import ComponentData

_EXACT, _DEFAULT, _ANY = range(3)
_ENTITY_TYPES = ("user", "client-id", "ip")

_Wanted = dict[str, tuple[str | None, ...]]
"""The wanted name by entity type (None stands for the default); empty if any name matches."""


def _error_response(request: DescribeClientQuotasRequest, error: ApiException) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=int(error.code), error_message=error.message, entries=None)


@handles(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE_CONFIGS),),
    on_error=_error_response,
)
def handle_describe_client_quotas(
    broker: Broker, request: DescribeClientQuotasRequest, access: Access
) -> DescribeClientQuotasResponse:
    access.require_on_cluster(AclOperation.DESCRIBE_CONFIGS)
    wanted: _Wanted = {}
    for component in request.components:
        _add(wanted, component)
    if "ip" in wanted and len(wanted) > 1:
        raise ApiException(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component.",
        )
    quotas = broker.metadata.image.client_quotas.by_entity
    entries = [
        _entry(entity, values) for entity, values in quotas.items() if _matches(entity, wanted, strict=request.strict)
    ]
    return DescribeClientQuotasResponse(entries=entries)


def _add(wanted: _Wanted, component: ComponentData) -> None:
    kind = component.entity_type
    if not kind:
        raise ApiException(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
    if kind in wanted:
        raise ApiException(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in _ENTITY_TYPES:
        raise ApiException(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if component.match_type == _EXACT:
        if component.match is None:
            raise ApiException(
                ErrorCode.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null."
            )
    elif component.match_type not in (_DEFAULT, _ANY):
        raise ApiException(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
    elif component.match is not None:
        name = "MATCH_TYPE_DEFAULT" if component.match_type == _DEFAULT else "MATCH_TYPE_SPECIFIED"
        raise ApiException(ErrorCode.INVALID_REQUEST, f"Request specified {name}, but also specified a match string.")
    wanted[kind] = () if component.match_type == _ANY else (component.match,)


def _matches(entity: QuotaEntity, wanted: _Wanted, *, strict: bool) -> bool:
    if strict and len(entity) != len(wanted):
        return False
    names = dict(entity)
    return all(kind in names and (not match or match[0] == names[kind]) for kind, match in wanted.items())


def _entry(entity: QuotaEntity, values: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueData(key=key, value=value) for key, value in values.items()],
    )
