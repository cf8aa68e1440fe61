"""Defects in what a controller decides, when it answers, and whose requests it accepts."""

from __future__ import annotations

from typing import Any

from barnabas.common.errors import ApiException, ErrorCode
from tests.simulation.cluster.defects import defect, replace_in


@defect("answer-before-commit", "a decision is answered when it is made, not when it is committed")
def _() -> None:
    def make(original: Any) -> Any:
        def answer(self: Any, result: Any, deferred: Any, answer_error: Any) -> Any:
            if result.records:
                yield from self._append(result, lambda: None)
            deferred.complete(result.response)

        return answer

    replace_in("controller.quorum_controller", "QuorumController._answer_when_committed", make)


@defect("refusal-before-commit", "an answer without records does not wait for the records that it depends on")
def _() -> None:
    def make(original: Any) -> Any:
        return lambda self, committed: committed()

    replace_in("controller.controller_state", "ControllerState.wait_for_uncommitted", make)


@defect("uncommitted-not-dropped", "a deposed controller continues from uncommitted state")
def _() -> None:
    replace_in("controller.controller_state", "ControllerState.revert", lambda original: lambda self: None)


@defect("decides-on-the-committed", "a decision ignores earlier decisions that are not committed yet")
def _() -> None:
    def make(original: Any) -> Any:
        def move_ahead(self: Any, image: Any, last_offset: int, committed: Any) -> None:
            original(self, image, last_offset, committed)
            self.image = self.committed

        return move_ahead

    replace_in("controller.controller_state", "ControllerState.move_ahead", make)


@defect("committed-runs-ahead", "the committed image is the newest one, committed or not")
def _() -> None:
    def make(original: Any) -> Any:
        def handle(self: Any, batches: Any, first_unwritten: int) -> None:
            original(self, batches, first_unwritten)
            if self._ahead:
                self.committed = self._ahead[-1].image.with_provenance(self.committed.provenance)

        return handle

    replace_in("controller.controller_state", "ControllerState.handle_commit_of_own", make)


@defect("deposed-controller-answers", "a deposed controller answers waiting calls with success")
def _() -> None:
    def make(original: Any) -> Any:
        def deactivate(self: Any) -> None:
            for ahead in list(self.state._ahead):
                ahead.committed()
            original(self)

        return deactivate

    replace_in("controller.quorum_controller", "QuorumController.deactivate", make)


@defect("deposed-controller-is-silent", "callers of a deposed controller never receive an answer")
def _() -> None:
    def make(original: Any) -> Any:
        def deactivate(self: Any) -> None:
            self._waiting.clear()
            original(self)

        return deactivate

    replace_in("controller.quorum_controller", "QuorumController.deactivate", make)


@defect("rule-created-twice", "an ACL that already exists is written again")
def _() -> None:
    def make(original: Any) -> Any:
        def create(self: Any, bindings: Any) -> Any:
            from barnabas.metadata.image.acls import AclsImage

            state, self._state = self._state, _StateWithout(AclsImage())
            try:
                return (yield from original(self, bindings))
            finally:
                self._state = state

        return create

    replace_in("controller.acl_control_manager", "AclControlManager.create_acls", make)


class _StateWithout:
    """A state whose image has empty ACLs."""

    def __init__(self, acls: Any) -> None:
        self.image = self
        self.acls = acls


@defect("deletion-forgets-some", "DeleteAcls reports all ACLs that match but removes only the first")
def _() -> None:
    def make(original: Any) -> Any:
        def delete(self: Any, *arguments: Any) -> Any:
            from barnabas.controller.controller_result import ControllerResult

            result = yield from original(self, *arguments)
            return ControllerResult(result.records[:1], result.response)

        return delete

    replace_in("controller.acl_control_manager", "AclControlManager.delete_acls", make)


@defect("broker-epoch-not-checked", "requests of a broker are accepted with any broker epoch")
def _() -> None:
    def make(original: Any) -> Any:
        def check(self: Any, broker_id: int, broker_epoch: int) -> Any:
            broker = self._state.image.cluster.brokers.get(broker_id)
            if broker is None:
                raise ApiException(ErrorCode.STALE_BROKER_EPOCH)
            return broker

        return check

    replace_in("controller.cluster_control_manager", "ClusterControlManager.check_broker_epoch", make)


@defect("broker-epoch-kept", "a new process of a broker receives the epoch of the previous process")
def _() -> None:
    def make(original: Any) -> Any:
        def record(self: Any, request: Any, existing: Any, new_epoch: int) -> Any:
            return original(self, request, existing, new_epoch if existing is None else existing.epoch)

        return record

    replace_in("controller.cluster_control_manager", "ClusterControlManager.registration_record", make)


@defect("unfenced-before-it-caught-up", "a broker is unfenced before it has the metadata up to its registration")
def _() -> None:
    def make(original: Any) -> Any:
        def next_state(self: Any, registration: Any, *, is_caught_up: bool, **others: Any) -> Any:
            return original(self, registration, is_caught_up=True, **others)

        return next_state

    replace_in("controller.broker_heartbeat_manager", "BrokerHeartbeatManager.next_state", make)


@defect("sessions-never-end", "a dead broker is never fenced")
def _() -> None:
    replace_in(
        "controller.broker_heartbeat_manager",
        "BrokerHeartbeatManager.stale_brokers",
        lambda original: lambda self, now_ms: [],
    )


@defect("fenced-broker-still-leads", "a fenced broker remains the leader of its partitions")
def _() -> None:
    def make(original: Any) -> Any:
        return lambda self, broker_id, of_partitions: original(self, broker_id, [])

    replace_in("controller.replication_control_manager", "ReplicationControlManager._fenced_after", make)


@defect("producer-ids-from-the-committed", "two concurrent requests for producer ids receive the same block")
def _() -> None:
    def make(original: Any) -> Any:
        def generate(self: Any, broker_id: int, broker_epoch: int) -> Any:
            image, self._state.image = self._state.image, self._state.committed
            try:
                return original(self, broker_id, broker_epoch)
            finally:
                self._state.image = image

        return generate

    replace_in("controller.producer_ids_control_manager", "ProducerIdsControlManager.generate_next_producer_ids", make)


@defect("appends-out-of-order", "decisions reach the log in another order than they were made")
def _() -> None:
    replace_in(
        "controller.quorum_controller",
        "QuorumController.take_appends",
        lambda original: lambda self: list(reversed(original(self))),
    )


@defect("standby-replays-twice", "a standby replays each delivery twice")
def _() -> None:
    def make(original: Any) -> Any:
        def follow(self: Any, batches: Any, image: Any) -> None:
            batches = list(batches)
            original(self, batches, image)
            for batch in batches:
                for record in batch.records:
                    if type(record).__name__ == "PartitionChangeRecord":
                        self._delta.replay(record)
            self._apply(image.provenance)

        return follow

    replace_in("controller.controller_state", "ControllerState.follow", make)


@defect("decided-twice", "the request in an envelope is decided twice")
def _() -> None:
    def make(original: Any) -> Any:
        def decided(self: Any, opened: Any, size: int, started: float) -> Any:
            first = self.call(*opened)
            if hasattr(first, "close"):
                self._kept = [*getattr(self, "_kept", ()), first]
            return original(self, opened, size, started)

        return decided

    replace_in("server.controller.dispatcher", "ControllerDispatcher._decided", make)


@defect("old-session-ends-the-start", "a broker gives up if the session of its previous process still lasts")
def _() -> None:
    replace_in("broker.lifecycle", "_FATAL", lambda original: original | {ErrorCode.DUPLICATE_BROKER_REGISTRATION})
