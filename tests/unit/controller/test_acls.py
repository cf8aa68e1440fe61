"""CreateAcls, DeleteAcls and DescribeAcls on the controller: decisions, records and responses."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from barnabas.common.acl import AclBinding, AclBindingFilter, AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.controller import acl_control_manager, acl_search
from barnabas.controller.acl_control_manager import AclControlManager
from barnabas.controller.apis import create_acls, delete_acls, describe_acls
from barnabas.controller.prepared_decision import PreparedDecision
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.security.authorizer.authorizer import AclAuthorizer, AllowAllAuthorizer
from barnabas.security.principal import ANONYMOUS
from barnabas.security.request_context import RequestContext
from tests.unit.controller.controller_harness import ControllerHarness

ALICE = AclBinding(2, "orders", 3, "User:alice", "*", 3, 3)
BOB = ALICE._replace(principal="User:bob")
ANY = AclBindingFilter()


class Rules(AclAuthorizer):
    """Contains the ACLs that it received; allows everything except what a test denies."""

    def __init__(self) -> None:
        self.denied: set[AclOperation] = set()
        self.by_id: dict[Uuid, AclBinding] = {}

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
        assert (resource_type, resource_name) == (ResourceType.CLUSTER, "kafka-cluster")
        return operation not in self.denied

    def load_snapshot(self, acls_by_id: Mapping[Uuid, AclBinding]) -> None:
        raise NotImplementedError

    def add_acl(self, acl_id: Uuid, binding: AclBinding) -> None:
        self.by_id[acl_id] = binding

    def remove_acl(self, acl_id: Uuid) -> None:
        del self.by_id[acl_id]

    def complete_initial_load(self) -> None:
        raise NotImplementedError

    def acls(self, acl_filter: AclBindingFilter) -> Iterable[tuple[Uuid, AclBinding]]:
        return [(acl_id, binding) for acl_id, binding in self.by_id.items() if acl_filter.matches(binding)]

    @property
    def acl_count(self) -> int:
        return len(self.by_id)


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest.fixture
def harness(rules: Rules) -> ControllerHarness:
    made = ControllerHarness().activate()
    made.authorizer = rules  # type: ignore[assignment]
    return made


def creation(binding: AclBinding) -> AclCreation:
    type_, name, pattern, principal, host, operation, permission = binding
    return AclCreation(
        resource_type=type_,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def filter_fields(acl_filter: AclBindingFilter) -> dict[str, Any]:
    type_, name, pattern, principal, host, operation, permission = acl_filter
    return {
        "resource_type_filter": type_,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": principal,
        "host_filter": host,
        "operation": operation,
        "permission_type": permission,
    }


def creating(*bindings: AclBinding) -> CreateAclsRequest:
    return CreateAclsRequest(creations=[creation(binding) for binding in bindings])


def deleting(*filters: AclBindingFilter) -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=[DeleteAclsFilter(**filter_fields(acl_filter)) for acl_filter in filters])


def create(harness: ControllerHarness, *bindings: AclBinding) -> list[tuple[int, str | None]]:
    response: CreateAclsResponse = harness.call(create_acls.handle, creating(*bindings), 3)
    return [(result.error_code, result.error_message) for result in response.results]


def delete(harness: ControllerHarness, *filters: AclBindingFilter) -> DeleteAclsResponse:
    response: DeleteAclsResponse = harness.call(delete_acls.handle, deleting(*filters), 3)
    return response


def deleted(response: DeleteAclsResponse) -> list[set[AclBinding]]:
    return [
        {
            AclBinding(
                acl.resource_type,
                acl.resource_name,
                acl.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for acl in result.matching_acls
        }
        for result in response.filter_results
    ]


def stored(harness: ControllerHarness) -> set[AclBinding]:
    return set(harness.controller.committed_image.acls.by_id.values())


# Creating


def test_a_created_acl_exists_when_it_is_committed(harness: ControllerHarness) -> None:
    deferred = create_acls.handle(harness.controller, _context(), creating(ALICE, BOB), harness.authorizer)
    harness.append()
    assert not deferred.is_complete
    assert stored(harness) == set()
    harness.commit()
    assert [result.error_code for result in deferred.value.results] == [0, 0]
    assert stored(harness) == {ALICE, BOB}
    assert [type(record) for record in harness.log[-1].records] == [AccessControlEntryRecord] * 2


def test_creating_an_acl_decides_but_does_not_apply(harness: ControllerHarness) -> None:
    manager = harness.controller.acls
    first, again = whole(manager.create_acls([ALICE])), whole(manager.create_acls([ALICE]))
    assert len(first.records) == len(again.records) == 1
    assert stored(harness) == set()


def test_creating_an_existing_acl_succeeds_without_a_record(harness: ControllerHarness) -> None:
    create(harness, ALICE)
    batches = len(harness.log)
    assert create(harness, ALICE) == [(0, "")]
    assert len(harness.log) == batches


def test_an_uncommitted_acl_is_not_written_again(harness: ControllerHarness) -> None:
    first = create_acls.handle(harness.controller, _context(), creating(ALICE), harness.authorizer)
    second = create_acls.handle(harness.controller, _context(), creating(ALICE), harness.authorizer)
    assert not second.is_complete
    harness.settle()
    assert first.value.results[0].error_code == second.value.results[0].error_code == 0
    assert len(harness.controller.committed_image.acls) == 1


def test_two_equal_acls_in_one_request_write_one_record(harness: ControllerHarness) -> None:
    assert create(harness, ALICE, ALICE, BOB) == [(0, "")] * 3
    assert len(harness.log[-1].records) == 2


def test_an_invalid_acl_does_not_fail_the_others(harness: ControllerHarness) -> None:
    results = create(harness, ALICE, ALICE._replace(principal="alice"), BOB)
    assert [code for code, _ in results] == [0, ErrorCode.INVALID_REQUEST, 0]
    assert stored(harness) == {ALICE, BOB}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resource_type": 4, "name": "orders"}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_type": 4, "name": ""}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"name": ""}, "Invalid empty resource name"),
        ({"name": "", "resource_type": 99}, "Invalid empty resource name"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": 99, "operation": 99}, "Invalid patternType UNKNOWN"),
        ({"operation": 16}, "Invalid operation UNKNOWN"),
        ({"permission": -1}, "Invalid permissionType UNKNOWN"),
        (
            {"principal": "x"},
            "Could not parse principal from `x` (no colon is present separating the principal type from the principal "
            "name)",
        ),
    ],
)
def test_an_acl_that_cannot_be_stored_fails_with_the_reason(
    harness: ControllerHarness, change: dict[str, Any], message: str
) -> None:
    assert create(harness, ALICE._replace(**change)) == [(ErrorCode.INVALID_REQUEST, message)]
    assert stored(harness) == set()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resource_type": 1, "pattern_type": 1}, "resourceType must not be ANY"),
        ({"pattern_type": 1, "operation": 1}, "patternType must not be ANY"),
        ({"pattern_type": 2}, "patternType must not be MATCH"),
        ({"operation": 1, "permission": 1}, "operation must not be ANY"),
        ({"permission": 1}, "permissionType must not be ANY"),
    ],
)
def test_values_that_only_filters_allow_fail_the_request(
    harness: ControllerHarness, change: dict[str, Any], message: str
) -> None:
    results = create(harness, BOB, ALICE._replace(**change), ALICE._replace(name=""))
    assert results == [(ErrorCode.INVALID_REQUEST, message)] * 3
    assert stored(harness) == set()
    assert whole(harness.controller.acls.create_acls([ALICE._replace(**change)])).response[0].code == 42


@pytest.mark.parametrize(
    "change",
    [
        {"resource_type": 4, "name": "kafka-cluster", "operation": 3},
        {"name": "bad name!*"},
        {"host": "host.example"},
        {"host": "::1"},
        {"principal": "Robot:"},
        {"principal": ":"},
        {"name": "*", "pattern_type": 4},
    ],
)
def test_values_that_kafka_does_not_check_are_accepted_with_a_warning(
    harness: ControllerHarness, change: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    odd = ALICE._replace(**change)
    assert create(harness, odd) == [(0, "")]
    assert stored(harness) == {odd}
    is_warned = change.keys() & {"resource_type", "host", "pattern_type"}
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == bool(is_warned)


def test_a_warning_stays_on_one_line(harness: ControllerHarness, caplog: pytest.LogCaptureFixture) -> None:
    create(harness, ALICE._replace(host="h\nFAKE", name="a\nb"))
    assert "\n" not in caplog.text.strip()
    assert r"\nFAKE" in caplog.text


def test_thousands_of_warnings_are_logged_in_a_few_lines(
    harness: ControllerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    create(harness, *(ALICE._replace(host=f"host{number}") for number in range(50)))
    assert len(caplog.records) == 11
    assert "40 more warnings about the ACLs of this request" in caplog.text


def test_more_than_ten_thousand_new_acls_fail_as_a_whole(harness: ControllerHarness) -> None:
    many = [ALICE._replace(name=f"t{number}") for number in range(10_001)]
    assert create(harness, *many[:10_000], many[0]) == [(0, "")] * 10_001
    assert create(harness, *many[:10_000]) == [(0, "")] * 10_000
    others = [binding._replace(principal="User:bob") for binding in many]
    too_large = (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    assert set(create(harness, *others)) == {too_large}
    assert len(stored(harness)) == 10_000


def test_an_unusable_id_is_drawn_again(harness: ControllerHarness) -> None:
    create(harness, ALICE)
    (taken,) = harness.controller.committed_image.acls.by_id
    dashed = Uuid(bytes([62 << 2]) + bytes(15))
    assert str(dashed).startswith("-")
    good = Uuid.from_int(123456789)
    drawn = iter([taken, Uuid.ZERO, Uuid.ONE, dashed, good, good, Uuid.from_int(987654321)])
    manager = AclControlManager(harness.controller.state, new_uuid=lambda: next(drawn))
    result = whole(manager.create_acls([BOB, BOB._replace(host="192.0.2.1")]))
    assert [record.message.id for record in result.records] == [good, Uuid.from_int(987654321)]


# Deleting


def test_a_filter_reports_and_removes_its_matches(harness: ControllerHarness) -> None:
    create(harness, ALICE, BOB)
    response = delete(harness, ANY._replace(principal="User:alice"), ANY._replace(name="nothing"))
    assert deleted(response) == [{ALICE}, set()]
    assert [result.error_code for result in response.filter_results] == [0, 0]
    assert stored(harness) == {BOB}
    assert [type(record) for record in harness.log[-1].records] == [RemoveAccessControlEntryRecord]


def test_an_acl_that_two_filters_match_is_reported_by_both_and_removed_once(harness: ControllerHarness) -> None:
    create(harness, ALICE, BOB)
    response = delete(harness, ANY, ANY._replace(principal="User:alice"), AclBindingFilter(*ALICE))
    assert deleted(response) == [{ALICE, BOB}, {ALICE}, {ALICE}]
    assert len(harness.log[-1].records) == 2
    assert stored(harness) == set()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resource_type": 99}, "Unknown patternFilter."),
        ({"pattern_type": 99, "operation": 99}, "Unknown patternFilter."),
        ({"operation": 99}, "Unknown entryFilter."),
        ({"permission": 99}, "Unknown entryFilter."),
    ],
)
def test_a_filter_with_an_unknown_code_fails_alone(
    harness: ControllerHarness, change: dict[str, Any], message: str
) -> None:
    create(harness, ALICE)
    bad, good = delete(harness, ANY._replace(**change), ANY).filter_results
    assert (bad.error_code, bad.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert good.error_code == 0
    assert stored(harness) == set()


def test_an_uncommitted_acl_can_be_deleted(harness: ControllerHarness) -> None:
    create_acls.handle(harness.controller, _context(), creating(ALICE), harness.authorizer)
    deferred = delete_acls.handle(harness.controller, _context(), deleting(ANY), harness.authorizer)
    assert deleted(harness.answer(deferred)) == [{ALICE}]
    assert stored(harness) == set()


def test_a_long_search_is_updated_before_its_decision(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever others do meanwhile, the deletion applies to the ACLs of the moment of the decision."""
    monkeypatch.setattr(acl_control_manager, "_SEARCHED_AT_ONCE", 10)
    monkeypatch.setattr(acl_search, "_RULES_PER_STEP", 4)
    many = [ALICE._replace(name=f"t{number}") for number in range(100)]
    create(harness, BOB, *many)
    bad = ANY._replace(resource_type=99)
    request = deleting(bad, ANY._replace(principal="User:alice"))
    prepared = delete_acls.handle(harness.controller, _context(), request, harness.authorizer)
    assert isinstance(prepared, PreparedDecision)
    steps = 0
    while prepared.work.advance():
        steps += 1
        if steps == 3:
            delete(harness, ANY._replace(name="t7"), ANY._replace(name="t8"))
            create(harness, ALICE._replace(name="new"), many[8], BOB._replace(name="new"))
    assert steps > 8
    response: DeleteAclsResponse = harness.answer(prepared.decide())
    assert response.filter_results[0].error_message == "Unknown patternFilter."
    assert deleted(response)[1] == {*many, ALICE._replace(name="new")} - {many[7]}
    assert stored(harness) == {BOB, BOB._replace(name="new")}


def test_a_search_needs_the_right(harness: ControllerHarness, rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_control_manager, "_SEARCHED_AT_ONCE", 0)
    create(harness, ALICE)
    rules.denied.add(AclOperation.ALTER)
    answer = delete_acls.handle(harness.controller, _context(), deleting(ANY), harness.authorizer)
    assert not isinstance(answer, PreparedDecision)
    (result,) = harness.answer(answer).filter_results
    assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_more_than_ten_thousand_removals_fail_as_a_whole(harness: ControllerHarness) -> None:
    many = [ALICE._replace(name=f"t{number}") for number in range(10_001)]
    create(harness, *many[:10_000])
    create(harness, many[10_000])
    response = delete(harness, ANY._replace(name="t1"), ANY)
    message = "Cannot remove more than 10000 acls in a single delete operation."
    assert [(r.error_code, r.error_message) for r in response.filter_results] == [(42, message)] * 2
    assert len(stored(harness)) == 10_001
    assert len(deleted(delete(harness, *(AclBindingFilter(*binding) for binding in many[:10_000])))) == 10_000
    assert stored(harness) == {many[10_000]}


# Rights, and missing parts


def test_creating_and_deleting_need_alter_on_the_cluster(harness: ControllerHarness, rules: Rules) -> None:
    rules.denied.add(AclOperation.ALTER)
    denied = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "User:ANONYMOUS lacks ALTER on Cluster:kafka-cluster")
    assert create(harness, ALICE, BOB._replace(name="")) == [denied, denied]
    response = delete(harness, ANY, ANY._replace(operation=99))
    assert [(result.error_code, result.error_message) for result in response.filter_results] == [denied, denied]
    assert harness.call(describe_acls.handle, DescribeAclsRequest(**filter_fields(ANY)), 3).error_code == 0


def test_describing_needs_describe_on_the_cluster(harness: ControllerHarness, rules: Rules) -> None:
    rules.denied.add(AclOperation.DESCRIBE)
    response = _described(harness, ANY)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert response.error_message == "User:ANONYMOUS lacks DESCRIBE on Cluster:kafka-cluster"


def test_without_an_authorizer_security_is_disabled() -> None:
    harness = ControllerHarness().activate()
    disabled = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert create(harness, ALICE, BOB) == [disabled, disabled]
    assert [(r.error_code, r.error_message) for r in delete(harness, ANY, ANY).filter_results] == [disabled, disabled]
    response = _described(harness, ANY)
    assert (response.error_code, response.resources) == (ErrorCode.SECURITY_DISABLED, [])


def test_an_authorizer_without_acls_neither_shows_nor_changes_any(harness: ControllerHarness) -> None:
    class NoAcls(AllowAllAuthorizer):
        is_absent = False

    harness.authorizer = NoAcls()
    message = "The authorizer of this node does not decide by ACLs."
    assert create(harness, ALICE) == [(ErrorCode.SECURITY_DISABLED, message)]
    response = _described(harness, ANY)
    assert (response.error_code, response.error_message) == (ErrorCode.SECURITY_DISABLED, message)


def test_an_inactive_controller_fails_each_entry(rules: Rules) -> None:
    harness = ControllerHarness()
    created = create_acls.handle(harness.controller, _context(), creating(ALICE, BOB), rules).value
    removed: Any = delete_acls.handle(harness.controller, _context(), deleting(ANY), rules)
    codes = [result.error_code for result in (*created.results, *removed.value.filter_results)]
    assert codes == [ErrorCode.NOT_CONTROLLER] * 3


def test_uncommitted_acls_are_lost_with_the_leadership(harness: ControllerHarness) -> None:
    deferred = create_acls.handle(harness.controller, _context(), creating(ALICE), harness.authorizer)
    harness.controller.deactivate()
    assert deferred.value.results[0].error_code == ErrorCode.NOT_CONTROLLER
    assert len(harness.controller.state.image.acls) == 0


# Describing


def test_acls_are_described_by_resource_pattern(harness: ControllerHarness, rules: Rules) -> None:
    prefixed = ALICE._replace(pattern_type=4)
    for number, binding in enumerate((ALICE, prefixed, BOB)):
        rules.add_acl(Uuid.from_int(number), binding)
    response = _described(harness, ANY._replace(resource_type=2))
    shown = [(r.resource_name, r.pattern_type, [acl.principal for acl in r.acls]) for r in response.resources]
    assert shown == [("orders", 3, ["User:alice", "User:bob"]), ("orders", 4, ["User:alice"])]


def test_an_error_is_answered_for_each_entry() -> None:
    error = ApiException(ErrorCode.REQUEST_TIMED_OUT, "later")
    created = create_acls.error_response(creating(ALICE, BOB), error)
    assert [(r.error_code, r.error_message) for r in created.results] == [(7, "later")] * 2
    removed = delete_acls.error_response(deleting(ANY), error)
    assert [(r.error_code, r.error_message) for r in removed.filter_results] == [(7, "later")]


def _context() -> RequestContext:
    return RequestContext(api_key=ApiKey.CREATE_ACLS, api_version=3, principal=ANONYMOUS)


def _described(harness: ControllerHarness, acl_filter: AclBindingFilter) -> DescribeAclsResponse:
    response = harness.call(describe_acls.handle, DescribeAclsRequest(**filter_fields(acl_filter)), 3)
    assert isinstance(response, DescribeAclsResponse)
    return response
