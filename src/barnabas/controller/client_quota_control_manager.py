"""Client quotas on the active controller (KIP-546, KIP-599, KIP-612).

An entity is a user, a client id, both together, or an IP address; the name None means the default. Entries of a request
are independent; each entry takes effect completely or not at all. Contradictions are refused here, where Kafka uses
the first or the last value: an entity named twice in a request, a type named twice in an entity. NaN is refused too;
Kafka stores it.

Host names are not resolved here, because that takes time; a broker that enforces the quota resolves them.
"""

from __future__ import annotations

import re
from collections import Counter
from ipaddress import ip_address
from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.common.errors import ApiError, ApiException, ErrorCode
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.client_quota_record import ClientQuotaRecord, EntityData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.metadata.image.client_quotas import QuotaEntity
    from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequestEntryData, OpData

__all__ = ["ClientQuotaControlManager"]

USER, CLIENT_ID, IP = "user", "client-id", "ip"


class _Key(NamedTuple):
    type_name: str
    largest: float
    """The first value that its type can't hold."""
    is_integral: bool


_LONG: Final = _Key("a LONG", 2.0**63, True)
_INT: Final = _Key("an INT", 2.0**31, True)
_DOUBLE: Final = _Key("a DOUBLE", float("inf"), False)
_CLIENT_KEYS: Final = {
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "request_percentage": _DOUBLE,
    "controller_mutation_rate": _DOUBLE,
}
_IP_KEYS: Final = {"connection_creation_rate": _INT}
_ROUNDING: Final = 1e-6
_HOST_NAME: Final = re.compile(r"(?=.{1,253}\.?\Z)(?!-)[A-Za-z0-9_-]{1,63}(?:\.(?!-)[A-Za-z0-9_-]{1,63})*\.?\Z")
_TWICE = "The entity is named more than once in this request; name it once, with all of its keys."


class ClientQuotaControlManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def alter_quotas(
        self, entries: Sequence[AlterClientQuotasRequestEntryData], *, validate_only: bool = False
    ) -> Steps[ControllerResult[list[ApiError]]]:
        """Return the result of each entry, in their order."""
        entities = [_entity_of(entry) for entry in entries]
        often = {entity for entity, count in Counter(entities).items() if count > 1}
        records: list[ApiMessageAndVersion] = []
        outcome: list[ApiError] = []
        pace = Pace()
        for entry, entity in zip(entries, entities, strict=True):
            if pace.is_reached():
                yield
            try:
                if entity in often:
                    raise _invalid(_TWICE)
                records.extend(self._records_of(entry, entity))
            except ApiException as error:
                outcome.append(ApiError.of(error))
            else:
                outcome.append(ApiError.NONE)
        decided = ControllerResult(records, outcome)
        return decided.without_records() if validate_only else decided

    def _records_of(self, entry: AlterClientQuotasRequestEntryData, entity: QuotaEntity) -> list[ApiMessageAndVersion]:
        keys = _keys_of(entity)
        twice = [key for key, count in Counter(op.key for op in entry.ops).items() if count > 1]
        if twice:
            raise _invalid(f"The key {twice[0]} is named more than once for one entity.")
        for op in entry.ops:
            if not op.remove:
                _validate_value(op, keys)
        current = self._state.image.client_quotas.of(entity)
        return [
            ApiMessageAndVersion(
                ClientQuotaRecord(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    key=op.key,
                    value=0.0 if op.remove else op.value,
                    remove=op.remove,
                ),
                0,
            )
            for op in entry.ops
            if (op.key in current if op.remove else current.get(op.key) != op.value)
        ]


def _entity_of(entry: AlterClientQuotasRequestEntryData) -> QuotaEntity:
    return tuple(
        sorted(((component.entity_type, component.entity_name) for component in entry.entity), key=lambda pair: pair[0])
    )


def _keys_of(entity: QuotaEntity) -> dict[str, _Key]:
    """Return the quota keys allowed for the entity; raises if the entity is invalid."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    kinds = [kind for kind, _ in entity]
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        if kinds.count(kind) > 1:
            raise _invalid(f"Entity type {kind} is named more than once in one entity.")
    if IP not in kinds:
        return _CLIENT_KEYS
    if len(kinds) > 1:
        raise _invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    address = entity[0][1]
    if address is not None and not _may_be_host(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _may_be_host(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return _HOST_NAME.match(text) is not None and not text.replace(".", "").isdigit()
    return True


def _validate_value(op: OpData, keys: dict[str, _Key]) -> None:
    key = keys.get(op.key)
    if key is None:
        raise _invalid(f"Invalid configuration key {op.key}")
    if isnan(op.value):
        raise _invalid(f"Quota {op.key} must be a number")
    if op.value <= 0:
        raise _invalid(f"Quota {op.key} must be greater than 0")
    if not key.is_integral:
        return
    if op.value > key.largest or (key is _INT and op.value >= key.largest):
        raise _invalid(f"Proposed value for {op.key} is too large for {key.type_name}.")
    if abs(op.value - round(op.value)) > _ROUNDING:
        raise _invalid(f"{op.key} cannot be a fractional value.")


def _invalid(message: str) -> ApiException:
    return ApiException(ErrorCode.INVALID_REQUEST, message)
