"""Quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Operations, refuse_unless
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import Deadline
from barnabas.clients.admin.routing import ANY, Target
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import alter_client_quotas as altering
from barnabas.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest, EntryData

__all__ = ["ClientQuotaEntity", "ClientQuotaFilter", "QuotaMatch", "QuotaOperations"]

_ENTITIES_PER_REQUEST = 1000
_EXACT, _DEFAULT, _ANY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class ClientQuotaEntity:
    """The entity of a quota: a user, a client id, both together, or an address. The name None is the default of all.

    ``parts`` are pairs of type (``user``, ``client-id``, ``ip``) and name, by type.
    """

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, entity: Mapping[str, str | None]) -> ClientQuotaEntity:
        """``ClientQuotaEntity.of({"user": "alice", "client-id": None})``"""
        return cls(tuple(sorted(entity.items())))

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name or '(default)'}" for kind, name in self.parts)


@dataclass(frozen=True, slots=True)
class QuotaMatch:
    """Matches a name; ``name=None`` matches the default, ``any_name`` every name."""

    type: str
    name: str | None = None
    any_name: bool = False


@dataclass(frozen=True, slots=True)
class ClientQuotaFilter:
    """Selects entities. ``strict``: only those without other parts."""

    matches: tuple[QuotaMatch, ...] = ()
    strict: bool = False


class QuotaOperations(Operations):
    async def describe_client_quotas(
        self, quota_filter: ClientQuotaFilter | None = None, *, timeout_s: float | None = None
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """Return the quotas of the entities that match a filter; without one, all."""
        return await self._quotas(quota_filter or ClientQuotaFilter(), self._deadline(timeout_s), ANY)

    async def alter_client_quotas(
        self,
        changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Results[ClientQuotaEntity, None]:
        """Set quotas by key (``producer_byte_rate`` ...); None removes one."""
        for entity, values in changes.items():
            refuse_unless(entity.parts, "a quota needs an entity")
            for key, value in values.items():
                refuse_unless(value is None or isfinite(value), f"{entity}: {key} can't be {value}")
        deadline = self._deadline(timeout_s)

        async def alter(part: Sequence[ClientQuotaEntity]) -> Results[ClientQuotaEntity, None]:
            return await self._items(
                part,
                lambda left: altering.AlterClientQuotasRequest(
                    entries=[_alteration(entity, changes[entity]) for entity in left], validate_only=validate_only
                ),
                lambda response: ((_entity(entry), _done(entry)) for entry in response.entries),
                deadline,
                api=ApiKey.ALTER_CLIENT_QUOTAS,
            )

        results = await self._in_chunks(list(changes), _ENTITIES_PER_REQUEST, alter)
        if wait and not validate_only and results.values:
            await self._until_quotas_show({entity: changes[entity] for entity in results.values}, deadline)
        return results

    async def _quotas(
        self, quota_filter: ClientQuotaFilter, deadline: Deadline, target: Target
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        response = await self._call(
            DescribeClientQuotasRequest(
                components=[_component(component) for component in quota_filter.matches], strict=quota_filter.strict
            ),
            deadline,
            api=ApiKey.DESCRIBE_CLIENT_QUOTAS,
            target=target,
        )
        return {_entity(entry): {value.key: value.value for value in entry.values} for entry in response.entries or ()}

    async def _until_quotas_show(
        self, changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]], deadline: Deadline
    ) -> None:
        async def shows(target: Target) -> bool:
            found = await self._quotas(ClientQuotaFilter(), deadline, target)
            return all(
                found.get(entity, {}).get(key) == value
                for entity, values in changes.items()
                for key, value in values.items()
            )

        await self._until_each_broker(shows, deadline, "changing quotas")


def _component(match: QuotaMatch) -> ComponentData:
    kind = _ANY if match.any_name else _DEFAULT if match.name is None else _EXACT
    return ComponentData(entity_type=match.type, match_type=kind, match=match.name if kind == _EXACT else None)


def _alteration(
    entity: ClientQuotaEntity, values: Mapping[str, float | None]
) -> altering.AlterClientQuotasRequestEntryData:
    return altering.AlterClientQuotasRequestEntryData(
        entity=[altering.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts],
        ops=[altering.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )


def _entity(entry: EntryData | altering.AlterClientQuotasResponseEntryData) -> ClientQuotaEntity:
    return ClientQuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity})


def _done(entry: altering.AlterClientQuotasResponseEntryData) -> AdminError | None:
    return admin_error(entry.error_code, entry.error_message, _entity(entry)) if entry.error_code else None
