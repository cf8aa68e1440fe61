"""Directory assignments that the controller receives: the last one counts, and none is lost or sent twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.replication.directory_assignments import ASSIGNMENTS_MAX, DirectoryAssignments, ReplicaKey
from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid

TOPIC = Uuid.from_int(1000)
A, B, C = (Uuid.from_int(number) for number in (201, 202, 203))
NONE, RETRY = ErrorCode.NONE, ErrorCode.NOT_CONTROLLER


def key(partition: int) -> ReplicaKey:
    return TOPIC, partition


def test_assignments_are_sent_in_one_request_and_done_when_accepted() -> None:
    assignments = DirectoryAssignments()
    assert not assignments.is_due
    for partition in range(3):
        assignments.want(key(partition), A)
    assert assignments.is_due
    assert assignments.next_request() == {key(0): A, key(1): A, key(2): A}
    assert not assignments.is_due
    taken = assignments.handle_answer({key(0): NONE, key(1): RETRY})
    assert [assignment.key for assignment in taken] == [key(0)]
    assert assignments.next_request() == {key(1): A, key(2): A}


def test_a_request_has_at_most_as_many_assignments_as_kafka_sends() -> None:
    assignments = DirectoryAssignments()
    for partition in range(ASSIGNMENTS_MAX + 1):
        assignments.want(key(partition), A)
    assert len(assignments.next_request()) == ASSIGNMENTS_MAX
    assignments.handle_failure()
    assert len(assignments) == ASSIGNMENTS_MAX + 1


def test_a_newer_assignment_is_sent_after_the_one_in_flight() -> None:
    assignments = DirectoryAssignments()
    assignments.want(key(0), A)
    assignments.next_request()
    assignments.want(key(0), B)
    assert not assignments.is_due
    assert assignments.handle_answer({key(0): NONE}) == []
    assert assignments.next_request() == {key(0): B}


def test_an_equal_assignment_is_not_sent_twice() -> None:
    assignments = DirectoryAssignments()
    assignments.want(key(0), A)
    assignments.next_request()
    assignments.want(key(0), B)
    assignments.want(key(0), A)
    assert [assignment.directory_id for assignment in assignments.handle_answer({key(0): NONE})] == [A]
    assert len(assignments) == 0


def test_assignments_of_a_removed_replica_are_not_sent() -> None:
    assignments = DirectoryAssignments()
    for partition in range(2):
        assignments.want(key(partition), A)
    assignments.next_request()
    assignments.withdraw(key(0))
    assignments.handle_failure()
    assert assignments.next_request() == {key(1): A}


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([A, B, C]), st.sampled_from(["want", "send", "fail"]))))
def test_in_the_end_the_controller_knows_the_last_assignment(steps: list[tuple[int, Uuid, str]]) -> None:
    assignments, known, wanted = DirectoryAssignments(), dict[ReplicaKey, Uuid](), dict[ReplicaKey, Uuid]()
    request: dict[ReplicaKey, Uuid] | None = None

    def end(request: dict[ReplicaKey, Uuid], *, is_taken: bool) -> None:
        if is_taken:
            known.update(request)
            assignments.handle_answer(dict.fromkeys(request, NONE))
        else:
            assignments.handle_failure()

    for partition, directory, step in steps:
        if step == "want":
            wanted[key(partition)] = directory
            assignments.want(key(partition), directory)
        elif request is not None:
            end(request, is_taken=step == "send")
            request = None
        elif assignments.is_due:
            request = assignments.next_request()
    if request is not None:
        end(request, is_taken=False)
    while assignments.is_due:
        end(assignments.next_request(), is_taken=True)
    assert known == wanted
