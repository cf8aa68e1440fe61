"""Defects in streams groups: tasks, topologies, deadlines."""

from __future__ import annotations

from typing import Any

from tests.simulation.cluster.defects import defect, replace_in

NEEDS = "streams_groups"
CHANGES = "coordinator.group.streams.group_changes"
GROUPS = "coordinator.group.streams.streams_groups"
PROCESSES = "coordinator.group.streams.task_processes"
STEP = "coordinator.group.streams.current_assignment"


def _unchanged(*arguments: Any, **options: Any) -> None:
    """Take the place of a function that has an effect."""


# --- tasks


@defect("tasks-are-given-to-two-members", "a member receives active tasks that another one still has", NEEDS)
def _() -> None:
    replace_in(PROCESSES, "TaskProcessIndex.active", lambda original: lambda self, subtopology_id, partition: None)


@defect("revoked-tasks-are-free", "a task is free when its member is told to give it up", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def update(self: Any, old: Any, new: Any) -> None:
            original(self, old, new)
            if new is not None:
                self._remove(new.tasks_pending_revocation, new.process_id)

        return update

    replace_in(PROCESSES, "TaskProcessIndex.update", make)


@defect("missed-tasks-are-not-repeated", "a member whose answer was lost never learns its tasks", NEEDS)
def _() -> None:
    replace_in(
        "coordinator.group.streams.tasks", "TasksTuple.has_the_tasks_of", lambda original: lambda self, other: True
    )


@defect("standby-tasks-are-forgotten", "the setting for standby tasks has no effect", NEEDS)
def _() -> None:
    replace_in(
        "coordinator.group.streams.streams_group_settings",
        "StreamsGroupSettings.assignment_configs",
        lambda original: lambda self, group_id: {},
    )


@defect("tasks-of-other-members-are-not-stored", "only the tasks of the member that sent the request are stored", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def store_target(self: Any, group: Any, input_: Any, records: list[Any], now_ms: int) -> Any:
            targets = original(self, group, input_, records, now_ms)
            if input_.changed is not None:
                own = input_.changed.member_id
                records[:] = [record for record in records if getattr(record.key, "member_id", own) == own]
            return targets

        return store_target

    replace_in(CHANGES, "GroupChanges._store_target", make)


# --- topologies


@defect("internal-topics-are-not-created", "nothing creates the topics between subtopologies", NEEDS)
def _() -> None:
    replace_in("broker.streams_topic_creation", "StreamsTopicCreation.create", lambda original: _unchanged)


@defect("topologies-are-compared-once", "a group does not learn that topics of its topology have changed", NEEDS)
def _() -> None:
    replace_in(
        "coordinator.group.modern_group",
        "ModernGroup.has_metadata_expired",
        lambda original: lambda self, now_ms: False,
    )


# --- deadlines, members that leave


@defect("silent-streams-members-stay", "a member of a streams group without heartbeats stays in it", NEEDS)
def _() -> None:
    replace_in(CHANGES, "GroupChanges.start_session", lambda original: _unchanged)


@defect("loaded-streams-members-have-no-sessions", "a new coordinator never removes members that it has loaded", NEEDS)
def _() -> None:
    replace_in(GROUPS, "StreamsGroups.on_loaded", lambda original: _unchanged)


@defect("tasks-may-be-kept-forever", "a member may take any time to give up tasks", NEEDS)
def _() -> None:
    replace_in(CHANGES, "GroupChanges.start_rebalance_timeout", lambda original: _unchanged)


@defect(
    "tasks-of-departed-members-are-lost", "a streams group does not reassign the tasks of a member that left", NEEDS
)
def _() -> None:
    def make(original: Any) -> Any:
        def fence(self: Any, *arguments: Any) -> Any:
            result = original(self, *arguments)
            result.records[:] = [record for record in result.records if record.value is None]
            return result

        return fence

    replace_in(CHANGES, "GroupChanges.fence", make)
