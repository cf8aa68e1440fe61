"""Defects in groups of the consumer protocol: epochs, reconciliation, static members, regular expressions, offsets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.simulation.cluster.defects import defect, replace_in

NEEDS = "consumer_groups"
CHANGES = "coordinator.group.consumer.group_changes"
GROUP = "coordinator.group.consumer.consumer_group"
GROUPS = "coordinator.group.consumer.consumer_groups"
HEARTBEAT = "coordinator.group.consumer.heartbeat"
STEP = "coordinator.group.consumer.current_assignment"
TARGET = "coordinator.group.consumer.target_assignment"


def _unchanged(*arguments: Any, **options: Any) -> None:
    """Take the place of a function that has an effect."""


# --- decisions and their commits


@defect("heartbeats-decide-on-committed-state", "a heartbeat does not see changes that are not committed yet", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def heartbeat(self: Any, *arguments: Any) -> Any:
            result = original(self, *arguments)
            result.is_ahead = False
            return result

        return heartbeat

    replace_in(GROUPS, "ConsumerGroups.heartbeat", make)
    replace_in("coordinator.group.group_records", "KeyedRecord.is_ahead", lambda original: False)


@defect("records-of-a-decision-are-replayed-backwards", "the records of one decision are replayed in reverse", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def decide(self: Any, *arguments: Any) -> Any:
            result = original(self, *arguments)
            result.records.reverse()
            return result

        return decide

    replace_in(HEARTBEAT, "Heartbeat.decide", make)


@defect("loaded-members-have-no-sessions", "members that a new coordinator has loaded never expire", NEEDS)
def _() -> None:
    replace_in(GROUPS, "ConsumerGroups.on_loaded", lambda original: _unchanged)


@defect("removed-members-stay-in-the-log", "the log does not say that a member was removed from its group", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def fence(self: Any, group: Any, members: Any, now_ms: int) -> Any:
            leaving = list(members)
            result = original(self, group, leaving, now_ms)
            result.records[:] = [record for record in result.records if record.value is not None]
            return CoordinatorSideEffects.remove(group, leaving, result)

        return fence

    replace_in(CHANGES, "GroupChanges.fence", make)


class CoordinatorSideEffects:
    """What a coordinator would do that removes members from its memory only."""

    @staticmethod
    def remove(group: Any, members: Any, result: Any) -> Any:
        for member in members:
            if member.member_id in group.members:
                group.remove_member(member.member_id)
                group.target.pop(member.member_id, None)
        return result


@defect("members-that-leave-change-no-epoch", "a group does not reassign the partitions of a member that left", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def fence(self: Any, *arguments: Any) -> Any:
            result = original(self, *arguments)
            result.records[:] = [record for record in result.records if record.value is None]
            return result

        return fence

    replace_in(CHANGES, "GroupChanges.fence", make)


# --- reconciliation


@defect("epoch-advances-before-revocation", "a member has the new epoch before it has given up partitions", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def advance(self: Any, member: Any, present_epoch: int) -> Any:
            reached = original(self, member, present_epoch)
            return replace(reached, member_epoch=self.target.epoch) if reached.pending_revocation else reached

        return advance

    replace_in(STEP, "Reconciliation._advance", make)


@defect("owned-partitions-are-assigned-again", "a member receives partitions that another one still has", NEEDS)
def _() -> None:
    replace_in(GROUP, "ConsumerGroup.owners_of", lambda original: lambda self, topic_id: {})
    replace_in(GROUP, "ConsumerGroup._own", _without_check)


@defect("revoked-partitions-are-free", "a partition is free when its member is told to give it up", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def own(self: Any, partitions: Any, epoch: int) -> None:
            if not any(partitions is member.pending_revocation for member in self.members.values()):
                original(self, partitions, epoch)

        return own

    replace_in(GROUP, "ConsumerGroup._own", make)


def _without_check(original: Any) -> Any:
    def own(self: Any, partitions: Any, epoch: int) -> None:
        for topic_id, indexes in partitions.items():
            self._owners.setdefault(topic_id, {}).update(dict.fromkeys(indexes, epoch))

    return own


@defect("silence-is-a-revocation", "a heartbeat without partitions counts as one that has given them up", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def reports_any(self: Any, partitions: Any) -> bool:
            return self.owned is not None and bool(original(self, partitions))

        return reports_any

    replace_in(STEP, "Reconciliation._reports_any", make)


@defect("revocations-never-time-out", "a member may take any time to give up partitions", NEEDS)
def _() -> None:
    replace_in(CHANGES, "GroupChanges.start_rebalance_timeout", lambda original: _unchanged)


# --- targets


@defect("targets-of-others-are-not-stored", "only the target of the member that sent the request is stored", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def update_target(
            self: Any, group: Any, epoch: int, before: Any, member: Any, records: list[Any], now_ms: int
        ) -> Any:
            target = original(self, group, epoch, before, member, records, now_ms)
            records[:] = [
                record
                for record in records
                if "TargetAssignmentMember" not in type(record.key).__name__ or record.key.member_id == member.member_id
            ]
            return target

        return update_target

    replace_in(CHANGES, "GroupChanges.update_target", make)


@defect("new-topics-match-no-pattern", "regular expressions are matched with the topics that exist at first", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def update(self: Any, image: Any, changed: Any, **options: Any) -> None:
            original(self, image, changed, has_new_topics=False)

        return update

    replace_in("coordinator.group.cluster_view", "ClusterView.update", make)


@defect("patterns-match-parts-of-names", "a regular expression matches a topic if a part of its name does", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        return lambda pattern: original(f".*({pattern}).*")

    replace_in("broker.topic_matcher", "compile_pattern", make)


# --- members and their epochs


@defect("lost-answers-fence-members", "a member that missed one answer is removed", NEEDS)
def _() -> None:
    replace_in(HEARTBEAT, "Heartbeat._owns_only", lambda original: lambda self, member: False)


@defect("lost-assignments-are-not-repeated", "a member whose answer was lost never learns its assignment", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def decide(self: Any, *arguments: Any) -> Any:
            result = original(self, *arguments)
            steps = [record for record in result.records if "CurrentMember" in type(record.key).__name__]
            if self._request.member_epoch and not steps:
                result.response.assignment = None
            return result

        return decide

    replace_in(HEARTBEAT, "Heartbeat.decide", make)


@defect("replaced-static-members-continue", "a static member continues after another process took its place", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def require_static(group: Any, member_id: str, instance_id: str) -> Any:
            found = group.static_member(instance_id)
            return original(group, member_id if found is None else found.member_id, instance_id)

        return require_static

    replace_in(HEARTBEAT, "require_static", make)


@defect("static-members-take-what-they-had", "a static member that returns ignores its target", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def replace_static(group: Any, present: Any, member_id: str, records: Any) -> Any:
            member = original(group, present, member_id, records)
            return replace(member, member_epoch=group.assignment_epoch)

        return replace_static

    replace_in(HEARTBEAT, "replace_static", make)


# --- offsets


@defect("commits-of-the-epoch-before-are-refused", "a commit that a heartbeat has overtaken is refused", NEEDS)
def _() -> None:
    replace_in(
        "coordinator.group.consumer.consumer_group_member",
        "ConsumerGroupMember.epoch_of",
        lambda original: lambda self, topic_id, partition: None,
    )
