"""CreateAcls, DeleteAcls and DescribeAcls: the refusals of Kafka's request classes, and the answers of its
controller."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.acl import AclOperation, AclPermissionType
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.controller.acl_control_manager import AclControlManager
from barnabas.controller.controller_state import ControllerState
from barnabas.protocol.errors import DecodeError
from barnabas.security.authorizer.acl_requests import (
    binding_of_creation,
    check_create_acls,
    check_delete_acls,
    check_describe_acls,
    filter_of,
)
from tests.oracles.corpus import check_all, grouped
from tests.oracles.messages import message_class

pytestmark = pytest.mark.oracle

GROUPS = grouped("acl-validation", lambda data: str(data["kind"]))
CHECKS: dict[str, Any] = {
    "CreateAcls": check_create_acls,
    "DeleteAcls": check_delete_acls,
    "DescribeAcls": check_describe_acls,
}


@pytest.mark.parametrize("kind", GROUPS)
def test_acl_requests_are_judged_as_by_kafka(kind: str) -> None:
    check_all(GROUPS[kind], check_line)


def check_line(data: dict[str, Any]) -> None:
    request = message_class(data["kind"], "request").decode(bytes.fromhex(data["hex"]), data["version"])
    assert request.to_json(data["version"]) == data["json"]
    parsed = parse(data["kind"], request)
    assert (parsed is not None) == data["parse"]["ok"], data["parse"]
    if parsed is None:
        return
    if "filter" in data["parse"]:
        assert shown_filter(parsed) == data["parse"]["filter"]
    if "controller" in data:
        assert decided(data["kind"], parsed) == ([expected(entry) for entry in data["controller"]], data.get("records"))


def parse(kind: str, request: Any) -> Any:
    """Return the ACLs or filters of the request, or None if it is refused as a whole."""
    try:
        CHECKS[kind](request)
        if kind == "CreateAcls":
            return [binding_of_creation(creation) for creation in request.creations]
    except (DecodeError, ApiException):
        return None
    return filter_of(request) if kind == "DescribeAcls" else [filter_of(filter_) for filter_ in request.filters]


def decided(kind: str, parsed: Any) -> tuple[list[tuple[int, str | None]], int | None]:
    ids = (Uuid.from_int(number) for number in range(1000, 100_000))
    manager = AclControlManager(ControllerState(), new_uuid=lambda: next(ids))
    if kind == "CreateAcls":
        created = whole(manager.create_acls(parsed))
        return [(error.code, error.message) for error in created.response], len(created.records)
    deleted = whole(manager.delete_acls(parsed))
    assert not deleted.records
    return [(response.error.code, response.error.message) for response in deleted.response], None


def expected(entry: dict[str, Any]) -> tuple[int, str | None]:
    assert entry["error"] == ErrorCode(entry["code"]).name
    assert not entry.get("matched")
    return entry["code"], entry.get("message")


def shown_filter(parsed: Any) -> str:
    """Return the text with which Java prints an AclBindingFilter."""
    type_, name, pattern, principal, host, operation, permission = parsed
    return (
        f"(patternFilter=ResourcePattern(resourceType={ResourceType(type_).name}, name={shown(name)}, "
        f"patternType={PatternType(pattern).name}), entryFilter=(principal={shown(principal)}, host={shown(host)}, "
        f"operation={AclOperation(operation).name}, permissionType={AclPermissionType(permission).name}))"
    )


def shown(text: str | None) -> str:
    return "<any>" if text is None else text
