"""Eager assignment: all units are assigned again in every round."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.decide.group.assignor import AssignmentRound, config_mismatch
from barnabas.connect.decide.group.connect_protocol import ProtocolVersion, WorkerMetadata
from barnabas.connect.decide.group.eager_assignor import EagerAssignor
from barnabas.connect.identifiers import ConnectorTaskId
from tests.unit.connect.decide.group.configs import Configs


def round_of(members: list[str], **task_counts: int) -> AssignmentRound:
    metadata = {member: WorkerMetadata(f"http://{member}/", 7) for member in members}
    leader = min(members)
    return AssignmentRound(leader, ProtocolVersion.EAGER, 1, -1, metadata, Configs(7, task_counts), 0)


def test_connectors_are_dealt_first_and_tasks_continue_with_the_next_member() -> None:
    assignments = EagerAssignor().assign(round_of(["b", "a"], c2=1, c1=2, c3=1))
    assert assignments["a"].connectors == ("c1", "c3")
    assert assignments["b"].connectors == ("c2",)
    assert assignments["b"].tasks == (ConnectorTaskId("c1", 0), ConnectorTaskId("c2", 0))
    assert assignments["a"].tasks == (ConnectorTaskId("c1", 1), ConnectorTaskId("c3", 0))


@given(
    members=st.lists(st.sampled_from("abcdefg"), min_size=1, unique=True),
    task_counts=st.dictionaries(st.sampled_from(["c1", "c2", "c3", "c4"]), st.integers(0, 5)),
)
def test_everything_is_dealt_once_and_evenly(members: list[str], task_counts: dict[str, int]) -> None:
    round_ = round_of(members, **task_counts)
    assignments = EagerAssignor().assign(round_)
    given_ = [item for assignment in assignments.values() for item in (*assignment.connectors, *assignment.tasks)]
    wanted = [*task_counts, *(task for name in task_counts for task in round_.config.tasks(name))]
    assert sorted(map(str, given_)) == sorted(map(str, wanted))
    sizes = [len(assignment.connectors) + len(assignment.tasks) for assignment in assignments.values()]
    assert max(sizes) - min(sizes) <= 1
    assert {assignment.config_offset for assignment in assignments.values()} == {7}


def test_a_leader_that_lags_sends_all_members_the_newest_config_offset() -> None:
    failed = config_mismatch(round_of(["a", "b"], c1=1), 12)
    assert {assignment.config_offset for assignment in failed.values()} == {12}
    assert all(assignment.has_failed and not assignment.has_work for assignment in failed.values())
    assert failed["b"].leader_url == "http://a/"
