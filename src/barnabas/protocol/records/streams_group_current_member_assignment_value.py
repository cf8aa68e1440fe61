"""StreamsGroupCurrentMemberAssignmentValue (coordinator record value 22): the current assignment of a member."""

from barnabas.protocol.schema import Message, Struct, array, int8, int32, string

__all__ = ["StreamsGroupCurrentMemberAssignmentValue", "TaskIds"]


class TaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array("int32")
    assignment_epochs: list[int] | None = array("int32", nullable="0+", tag=0)


class StreamsGroupCurrentMemberAssignmentValue(Message, api_key=22, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)
    active_tasks_pending_revocation: list[TaskIds] = array(TaskIds)
    standby_tasks_pending_revocation: list[TaskIds] = array(TaskIds)
    warmup_tasks_pending_revocation: list[TaskIds] = array(TaskIds)
