"""StreamsGroupTargetAssignmentMemberValue (coordinator record value 21): the target assignment of a member."""

from barnabas.protocol.schema import Message, Struct, array, string

__all__ = ["StreamsGroupTargetAssignmentMemberValue", "TaskIds"]


class TaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array("int32")


class StreamsGroupTargetAssignmentMemberValue(Message, api_key=21, versions="0", flexible="0+"):
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)
