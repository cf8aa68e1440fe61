"""A producer id from the cluster, by which a broker recognizes a batch that it already has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import admin_error
from barnabas.clients.producer.batch import ProducerId
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from barnabas.clients.network_client import NetworkClient

__all__ = ["request_producer_id"]

_STABLE_VERSION = 5
_LOADING = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_TRIES = 50


async def request_producer_id(network: NetworkClient, *, backoff_s: float) -> ProducerId:
    """Request a new id. Raise UnsupportedVersion for a cluster without ids, AdminError, ClientError."""
    for remaining in reversed(range(_TRIES)):
        connection = await network.connect()
        version = min(connection.version_of(InitProducerIdRequest.API_KEY), _STABLE_VERSION)
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = await connection.request(request, version=version)
        if not response.error_code:
            return ProducerId(response.producer_id, response.producer_epoch)
        if response.error_code not in _LOADING or not remaining:
            break
        await asyncio.sleep(backoff_s)
    raise admin_error(response.error_code, None, "enable.idempotence")
