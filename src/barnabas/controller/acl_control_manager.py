"""Decide what CreateAcls and DeleteAcls write. State changes only when the records are replayed.

Entries succeed or fail one by one, but their records are one atomic batch: no reader may see half of a request, such as
an ALLOW without its DENY.

The checks are only Kafka's: an operation need not fit the type, a host need not be an address.
``security.authorizer.acl_warnings`` warns the caller of such ACLs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from barnabas.common.acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from barnabas.common.errors import ApiError, ApiException, ErrorCode
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.uuid import Uuid
from barnabas.controller.acl_search import AclSearch
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.metadata.image.acls import AclsImage, acl_record
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord

__all__ = ["AclControlManager", "AclDeletion"]

_REMOVALS_MAX: Final = 10000
"""Kafka's limit for one DeleteAcls; for CreateAcls it is the limit of every decision (``append_limits``)."""

_SEARCHED_AT_ONCE: Final = 16_384
"""This many rules are searched, for all filters together, before other work has its turn."""

_DASH_SEXTET = 62
"""The six bits that URL-safe base64 writes as ``-``."""


class AclDeletion(NamedTuple):
    """The matches of one filter, or its error."""

    error: ApiError
    deleted: Sequence[AclBinding] = ()


class AclControlManager:
    def __init__(self, state: ControllerState, *, new_uuid: Callable[[], Uuid]) -> None:
        self._state = state
        self._new_uuid = new_uuid

    def activate(self) -> None:
        """Index the ACLs now: with a million of them the first caller would wait for a second."""
        len(self._state.image.acls.ids)

    def create_acls(self, bindings: Sequence[AclBinding]) -> Steps[ControllerResult[list[ApiError]]]:
        """A rule that exists succeeds without a record, because clients retry after a lost response."""
        acls = self._state.image.acls
        known = acls.ids
        created: dict[AclBinding, Uuid] = {}
        taken: set[Uuid] = set()
        results: list[ApiError] = []
        pace = Pace()
        for binding in bindings:
            if pace.is_reached():
                yield
            error = _problem(binding)
            results.append(ApiError.NONE if error is None else ApiError(ErrorCode.INVALID_REQUEST, error))
            if error is None and binding not in known and binding not in created:
                created[binding] = acl_id = self._new_id(acls, taken)
                taken.add(acl_id)
        records = [ApiMessageAndVersion(acl_record(acl_id, binding), 0) for binding, acl_id in created.items()]
        return ControllerResult(records, results)

    def long_search(self, filters: Sequence[AclBindingFilter]) -> AclSearch | None:
        """Return the search to pass to ``delete_acls`` if the filters would take long; otherwise None."""
        acls = self._state.image.acls
        broad = sum(not acl_filter.is_one_binding for acl_filter in filters if _filter_problem(acl_filter) is None)
        if len(acls) * broad <= _SEARCHED_AT_ONCE:
            return None
        usable = [acl_filter for acl_filter in filters if _filter_problem(acl_filter) is None]
        return AclSearch(acls, usable, limit=_REMOVALS_MAX)

    def delete_acls(
        self, filters: Sequence[AclBindingFilter], search: AclSearch | None = None
    ) -> Steps[ControllerResult[list[AclDeletion]]]:
        """Report all matches of each filter; an ACL that several match is removed once. ``search``: the result of
        ``long_search`` for the same filters.

        Raises INVALID_REQUEST, and removes nothing, if the matches exceed the limit of one request.
        """
        if search is not None and search.is_too_much:
            raise _too_many()
        acls = self._state.image.acls
        searched = None if search is None else iter(search.found(acls))
        deletions: list[AclDeletion] = []
        removed: dict[Uuid, None] = {}
        pace = Pace()
        for acl_filter in filters:
            if pace.is_reached():
                yield
            error = _filter_problem(acl_filter)
            if error is not None:
                deletions.append(AclDeletion(ApiError(ErrorCode.INVALID_REQUEST, error)))
                continue
            found: list[AclBinding] = []
            for acl_id, binding in acls.find(acl_filter) if searched is None else next(searched):
                removed[acl_id] = None
                found.append(binding)
                if pace.is_reached():
                    yield
                if len(removed) > _REMOVALS_MAX:
                    raise _too_many()
            deletions.append(AclDeletion(ApiError.NONE, found))
        records = [ApiMessageAndVersion(RemoveAccessControlEntryRecord(id=acl_id), 0) for acl_id in removed]
        return ControllerResult(records, deletions)

    def _new_id(self, acls: AclsImage, taken: set[Uuid]) -> Uuid:
        """Return an id that is not reserved or in use, and whose text does not begin with ``-`` like an option."""
        while True:
            acl_id = self._new_uuid()
            begins_with_dash = acl_id[0] >> 2 == _DASH_SEXTET
            if not (begins_with_dash or acl_id.is_reserved or acl_id in acls.by_id or acl_id in taken):
                return acl_id


def _too_many() -> ApiException:
    return ApiException(
        ErrorCode.INVALID_REQUEST, f"Cannot remove more than {_REMOVALS_MAX} acls in a single delete operation."
    )


def _problem(binding: AclBinding) -> str | None:
    """Return Kafka's error for an ACL that cannot be stored; the first problem of several."""
    if not ResourceType.TOPIC <= binding.resource_type <= ResourceType.USER:
        return f"Invalid resourceType {_name(ResourceType, binding.resource_type)}"
    if binding.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {_name(PatternType, binding.pattern_type)}"
    if not AclOperation.ALL <= binding.operation <= AclOperation.TWO_PHASE_COMMIT:
        return f"Invalid operation {_name(AclOperation, binding.operation)}"
    if binding.permission not in (AclPermissionType.DENY, AclPermissionType.ALLOW):
        return f"Invalid permissionType {_name(AclPermissionType, binding.permission)}"
    if not binding.name:
        return "Resource name should not be empty"
    if ":" not in binding.principal:
        return (
            f"Could not parse principal from `{binding.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return None


def _filter_problem(acl_filter: AclBindingFilter) -> str | None:
    if "UNKNOWN" in (_name(ResourceType, acl_filter.resource_type), _name(PatternType, acl_filter.pattern_type)):
        return "Unknown patternFilter."
    if "UNKNOWN" in (_name(AclOperation, acl_filter.operation), _name(AclPermissionType, acl_filter.permission)):
        return "Unknown entryFilter."
    return None


def _name(kind: type[ResourceType | PatternType | AclOperation | AclPermissionType], code: int) -> str:
    """Return the name of a code; an unknown code is UNKNOWN, as in Kafka."""
    known = kind._value2member_map_.get(code)
    return "UNKNOWN" if known is None else known.name
