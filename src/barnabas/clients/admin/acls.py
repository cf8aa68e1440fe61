"""Access rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence

from barnabas.clients.admin.acl_response import AclAnswer
from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Operations, refuse_unless
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import Deadline
from barnabas.clients.admin.routing import ANY, Target
from barnabas.clients.errors import RemoteProtocolError
from barnabas.common.acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest
from barnabas.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
)
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest

__all__ = ["AclOperations"]

_ACLS_PER_REQUEST = 2000
_ASKED_ONE_BY_ONE = 50
"""For more rules than this, one listing of all rules replaces single requests."""
_ACLS_PER_SLICE = 500
"""The number of rules decoded without yielding to other tasks: a millisecond or two."""


class AclOperations(Operations):
    async def describe_acls(
        self, acl_filter: AclBindingFilter | None = None, *, timeout_s: float | None = None
    ) -> AsyncGenerator[AclBinding]:
        """Return the rules that match a filter; without one, all. Listings of any length yield to the event loop."""
        async for rule in self._rules(acl_filter or AclBindingFilter(), self._deadline(timeout_s), ANY):
            yield rule

    async def create_acls(
        self, bindings: Iterable[AclBinding], *, wait: bool = False, timeout_s: float | None = None
    ) -> Results[AclBinding, None]:
        """Add rules. A rule that exists is not an error."""
        wanted = list(dict.fromkeys(bindings))
        for binding in wanted:
            _refuse_bad_binding(binding)
        deadline = self._deadline(timeout_s)

        async def create(part: Sequence[AclBinding]) -> Results[AclBinding, None]:
            return await self._items_in_order(
                part,
                lambda left: CreateAclsRequest(creations=[_creation(binding) for binding in left]),
                lambda response, asked: map(_done, response.results, asked),
                deadline,
                api=ApiKey.CREATE_ACLS,
            )

        results = await self._in_chunks(wanted, _ACLS_PER_REQUEST, create)
        if wait and results.values:
            await self._until_acls_are(results.values, deadline, there=True)
        return results

    async def delete_acls(
        self, filters: Iterable[AclBindingFilter], *, wait: bool = False, timeout_s: float | None = None
    ) -> Results[AclBindingFilter, tuple[AclBinding, ...]]:
        """Remove the rules that match filters. The value of each filter is the list of removed rules."""
        wanted = list(dict.fromkeys(filters))
        deadline = self._deadline(timeout_s)

        async def delete(part: Sequence[AclBindingFilter]) -> Results[AclBindingFilter, tuple[AclBinding, ...]]:
            return await self._items_in_order(
                part,
                lambda left: DeleteAclsRequest(filters=[_deletion(acl_filter) for acl_filter in left]),
                lambda response, asked: map(_deleted, response.filter_results, asked),
                deadline,
                api=ApiKey.DELETE_ACLS,
            )

        results = await self._in_chunks(wanted, _ACLS_PER_REQUEST, delete)
        gone = dict.fromkeys(binding for removed in results.values.values() for binding in removed)
        if wait and gone:
            await self._until_acls_are(gone, deadline, there=False)
        return results

    async def _rules(
        self, acl_filter: AclBindingFilter, deadline: Deadline, target: Target
    ) -> AsyncGenerator[AclBinding]:
        answer = await self._call(
            DescribeAclsRequest(
                resource_type_filter=acl_filter.resource_type,
                resource_name_filter=acl_filter.name,
                pattern_type_filter=acl_filter.pattern_type,
                principal_filter=acl_filter.principal,
                host_filter=acl_filter.host,
                operation=acl_filter.operation,
                permission_type=acl_filter.permission,
            ),
            deadline,
            api=ApiKey.DESCRIBE_ACLS,
            target=target,
            read=AclAnswer,
        )
        try:
            for count, rule in enumerate(answer.rules(), start=1):
                yield rule
                if count % _ACLS_PER_SLICE == 0:
                    await asyncio.sleep(0)
        except DecodeError as error:
            raise RemoteProtocolError(f"the answer to DescribeAcls can't be read: {error}") from error

    async def _until_acls_are(self, bindings: Iterable[AclBinding], deadline: Deadline, *, there: bool) -> None:
        wanted = set(bindings)

        async def shows(target: Target) -> bool:
            held: set[AclBinding] = set()
            filters = [AclBindingFilter(*binding) for binding in wanted] if len(wanted) <= _ASKED_ONE_BY_ONE else None
            for acl_filter in filters or [AclBindingFilter()]:
                held.update([rule async for rule in self._rules(acl_filter, deadline, target) if rule in wanted])
            return held == wanted if there else not held

        await self._until_each_broker(shows, deadline, "adding rules" if there else "removing rules")


def _refuse_bad_binding(binding: AclBinding) -> None:
    """Reject invalid rules; the cluster decides whether a rule makes sense."""
    refuse_unless(binding.name, f"{binding}: a rule needs the name of a resource")
    refuse_unless(binding.host, f"{binding}: a rule needs a host; * is any")
    refuse_unless(":" in binding.principal, f"{binding}: a principal is written Type:name, as in User:alice")
    refuse_unless(binding.resource_type > ResourceType.ANY, f"{binding}: a rule needs one type of resource")
    refuse_unless(
        binding.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED),
        f"{binding}: a rule's pattern is LITERAL or PREFIXED",
    )
    refuse_unless(binding.operation > AclOperation.ANY, f"{binding}: a rule needs one operation, or ALL")
    refuse_unless(
        binding.permission in (AclPermissionType.ALLOW, AclPermissionType.DENY), f"{binding}: a rule allows or denies"
    )


def _creation(binding: AclBinding) -> AclCreation:
    return AclCreation(
        resource_type=binding.resource_type,
        resource_name=binding.name,
        resource_pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )


def _deletion(acl_filter: AclBindingFilter) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=acl_filter.resource_type,
        resource_name_filter=acl_filter.name,
        pattern_type_filter=acl_filter.pattern_type,
        principal_filter=acl_filter.principal,
        host_filter=acl_filter.host,
        operation=acl_filter.operation,
        permission_type=acl_filter.permission,
    )


def _done(result: AclCreationResult, binding: AclBinding) -> AdminError | None:
    return admin_error(result.error_code, result.error_message, binding) if result.error_code else None


def _deleted(result: DeleteAclsFilterResult, acl_filter: AclBindingFilter) -> tuple[AclBinding, ...] | AdminError:
    """A rule that could not be removed fails its filter."""
    parts: tuple[DeleteAclsFilterResult | DeleteAclsMatchingAcl, ...] = (result, *result.matching_acls)
    for part in parts:
        if part.error_code:
            return admin_error(part.error_code, part.error_message, acl_filter)
    return tuple(
        AclBinding(
            matching.resource_type,
            matching.resource_name,
            matching.pattern_type,
            matching.principal,
            matching.host,
            matching.operation,
            matching.permission_type,
        )
        for matching in result.matching_acls
    )
