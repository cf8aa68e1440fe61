"""The ACLs of the cluster, and the decisions that follow from them.

They are read again when they are older than a setting allows, so a revoked right ends within that time. If they can't
be read, nothing is decided. A cluster without an authorizer allows everything, as its brokers do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import ClientError
from barnabas.common.acl import AclOperation
from barnabas.common.error_code import ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import ApiKey
from barnabas.registry.decide.access import Rights
from barnabas.registry.decide.errors import RegistryError
from barnabas.registry.settings.registry_config import RegistryConfig
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer, Authorizer
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext

__all__ = ["AclRules", "AllowAll", "RightsSource"]

log = logging.getLogger(__name__)

_FIRST_ID = 1
_TIMEOUT_S = 10.0


class RightsSource(Protocol):
    async def rights_of(self, user: str, host: str) -> Rights:
        """Return the rights of ``User:user`` at an address. Raise RegistryError."""


class _RightsOfCaller:
    def __init__(self, authorizer: Authorizer, user: str, host: str) -> None:
        principal = Principal("User", user)
        self.name = str(principal)
        self._authorizer = authorizer
        self._context = RequestContext(
            api_key=ApiKey.DESCRIBE_CONFIGS, api_version=0, principal=principal, client_host=host
        )

    def allows(self, operation: AclOperation, resource_type: ResourceType, resource_name: str) -> bool:
        return self._authorizer.authorize(self._context, operation, resource_type, resource_name)


class AllowAll:
    """A RightsSource for ``barnabas.registry.authorization=none``."""

    async def rights_of(self, user: str, host: str) -> Rights:
        return _RightsOfCaller(AllowAllAuthorizer(), user, host)


class AclRules:
    """A RightsSource. ``now_s`` is monotonic."""

    def __init__(self, admin: AdminClient, config: RegistryConfig, now_s: Callable[[], float]) -> None:
        self.read_count = 0
        self._admin = admin
        self._now_s = now_s
        self._age_max_s = config.barnabas_registry_acls_max_age_ms / 1000
        everyone = config.barnabas_registry_allow_everyone_if_no_acl_found
        self._settings = {
            "super.users": config.barnabas_registry_super_users,
            "allow.everyone.if.no.acl.found": str(everyone).lower(),
        }
        self._authorizer: Authorizer | None = None
        self._read_at_s = float("-inf")
        self._reading = asyncio.Lock()

    async def rights_of(self, user: str, host: str) -> Rights:
        wanted_s = self._now_s() - self._age_max_s
        if self._authorizer is None or self._read_at_s < wanted_s:
            async with self._reading:
                if self._authorizer is None or self._read_at_s < wanted_s:
                    await self._read()
        assert self._authorizer is not None
        return _RightsOfCaller(self._authorizer, user, host)

    async def _read(self) -> None:
        began_s = self._now_s()
        try:
            self._authorizer = await self._fetched()
        except (AdminError, ClientError, TimeoutError) as error:
            log.warning("the ACLs of the cluster can't be read, so requests are refused: %s", error)
            raise RegistryError(503, 503, f"The registry can't read the ACLs of the cluster: {error}") from error
        self._read_at_s = began_s
        self.read_count += 1

    async def _fetched(self) -> Authorizer:
        try:
            rules = [rule async for rule in self._admin.describe_acls(timeout_s=_TIMEOUT_S)]
        except AdminError as error:
            if error.code == ErrorCode.SECURITY_DISABLED:
                return AllowAllAuthorizer()
            raise
        authorizer = StandardAuthorizer()
        authorizer.configure(self._settings)
        authorizer.load_snapshot({Uuid.from_int(number): rule for number, rule in enumerate(rules, _FIRST_ID)})
        authorizer.complete_initial_load()
        return authorizer
