"""A broker and its controller in one process, for requests about credentials: no socket, the log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.broker.metadata_cache import MetadataCache
from barnabas.common.acl import AclOperation
from barnabas.common.config_value import Password
from barnabas.common.resource import ResourceType
from barnabas.controller.controller_result import ControllerResult
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.loader import MetadataLoader
from barnabas.network.api_handler import HandlerTable
from barnabas.network.request_dispatcher import RequestDispatcher
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.protocol.schema import Message
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.credential_publisher import CredentialPublisher
from barnabas.security.delegation_tokens import token_hmacs_of
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.request_context import RequestContext
from barnabas.server.controller.api_handlers import SERVED_TO_OWN_BROKER, ControllerHandlers
from barnabas.server.controller_channel.in_process import InProcessChannel
from tests.peers.credential_requests import PLAINTEXT, QUOTAS, RIGHTS
from tests.unit.controller.controller_harness import ControllerHarness

__all__ = ["CredentialWorld"]

TABLE = HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER)
SUPER_USERS = {"admin", "ANONYMOUS"}


class FixedRights(Authorizer):
    """Grants the rights of ``credential_requests``, without ACLs."""

    def authorize(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        user = context.principal.name
        return user in SUPER_USERS or (user, operation.name, resource_type.name, resource_name) in RIGHTS


class CredentialWorld:
    def __init__(self, *, has_tokens: bool = True, **settings: Any) -> None:
        secret = Password("a secret") if has_tokens else None
        self.harness = ControllerHarness(delegation_token_secret_key=secret, **settings).activate()
        self.authorizer = FixedRights()
        hmacs = token_hmacs_of(secret)
        self.metadata = MetadataCache()
        self.credentials = CredentialPublisher(clock=self.harness.clock, hmacs=hmacs)
        loader = MetadataLoader()
        for publisher in (self.metadata, self.credentials):
            loader.install(publisher)
        loader.handle_commit(self.harness.log)
        # As on a node, the broker's image is published first.
        self.harness.on_commit = lambda batch: loader.handle_commit([batch])
        self._write_quotas()
        self.broker = SimpleNamespace(
            metadata=self.metadata,
            token_hmacs=hmacs,
            controller=InProcessChannel(
                controller=self.harness.controller,
                handlers=ControllerHandlers(SERVED_TO_OWN_BROKER),
                authorizer=self.authorizer,
                own_context=lambda key, version: RequestContext(api_key=key, api_version=version),
            ),
        )

    def _write_quotas(self) -> None:
        records = [
            ClientQuotaRecord(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                key=key,
                value=value,
                remove=False,
            )
            for entity, values in QUOTAS
            for key, value in values.items()
        ]
        result = ControllerResult([ApiMessageAndVersion(record, 0) for record in records], None)
        self.harness.answer(self.harness.controller.submit(lambda: result, lambda error: None))

    def context(self, caller: str, key: ApiKey, version: int) -> RequestContext:
        if caller == PLAINTEXT:
            return RequestContext(api_key=key, api_version=version, principal=ANONYMOUS)
        return RequestContext(
            api_key=key, api_version=version, principal=Principal("User", caller), security_protocol="SASL_PLAINTEXT"
        )

    def ask(self, caller: str, request: Message, version: int) -> Any:
        """Return the response as the client decodes it."""
        key = ApiKey(request.API_KEY)
        return self.ask_in(self.context(caller, key, version), request)

    def ask_in(self, context: RequestContext, request: Message) -> Any:
        handler = TABLE.handler(context.api_key)
        version = context.api_version
        dispatcher = RequestDispatcher(server=self.broker, handlers=TABLE, authorizer=self.authorizer, stats={})
        request = handler.request_type.decode(request.encode(version), version)

        async def answer() -> Any:
            response = dispatcher.call(handler, request, context)
            if isinstance(response, Awaitable):
                waiting = asyncio.ensure_future(response)
                for _ in range(3):
                    await asyncio.sleep(0)
                    self.harness.settle()
                response = await waiting
            return response

        response = asyncio.run(answer())
        return handler.response_type.decode(response.encode(version), version)
