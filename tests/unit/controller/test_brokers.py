from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.controller.apis import (
    allocate_producer_ids,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    unregister_broker,
)
from barnabas.metadata.image.partition_registration import NO_LEADER, LeaderRecoveryState, PartitionRegistration
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import Feature
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.messages.controller_registration import Feature as ControllerFeature
from barnabas.protocol.messages.create_topics import CreatableReplicaAssignment
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from tests.unit.controller.controller_harness import ControllerHarness, directory_of, topic


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness().activate()


@pytest.fixture
def trio(harness: ControllerHarness) -> ControllerHarness:
    for broker in (1, 2, 3):
        harness.start_broker(broker)
    return harness


def place(harness: ControllerHarness, name: str, *replicas: int) -> None:
    wanted = topic(name, -1, -1)
    wanted.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))]
    (result,) = harness.create(wanted).topics
    assert result.error_code == 0


def partition(harness: ControllerHarness, name: str) -> PartitionRegistration:
    found = harness.controller.committed_image.topics.get(name)
    assert found is not None
    return found.partitions[0]


def register_error(harness: ControllerHarness, **changes: Any) -> int:
    return harness.call(broker_registration.handle, harness.registration(1, **changes)).error_code


class TestRegistration:
    def test_the_epoch_is_the_offset_of_the_registering_batch(self, harness: ControllerHarness) -> None:
        expected = harness.end_offset
        assert harness.register(1) == expected
        broker = harness.controller.committed_image.cluster.brokers[1]
        assert (broker.epoch, broker.fenced, broker.directories) == (expected, True, (directory_of(1),))

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"cluster_id": "AAAAAAAAAAAAAAAAAAAAAA"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
            ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
            ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
            ({"log_dirs": [Uuid.ONE]}, ErrorCode.INVALID_REGISTRATION),
            ({"log_dirs": [directory_of(1), directory_of(1)]}, ErrorCode.INVALID_REGISTRATION),
            ({"log_dirs": [directory_of(2)]}, ErrorCode.INVALID_REGISTRATION),
            ({"features": []}, ErrorCode.INVALID_REGISTRATION),
            (
                {"features": [Feature(name="metadata.version", min_supported_version=7, max_supported_version=29)]},
                ErrorCode.UNSUPPORTED_VERSION,
            ),
            (
                {"features": [Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)]},
                ErrorCode.UNSUPPORTED_VERSION,
            ),
        ],
        ids=[
            "another cluster",
            "from ZooKeeper",
            "no directory",
            "reserved directory",
            "directory twice",
            "directory of another broker",
            "no features",
            "metadata.version too low",
            "other finalized features missing",
        ],
    )
    def test_an_incompatible_broker_is_refused(
        self, harness: ControllerHarness, changes: dict[str, Any], code: ErrorCode
    ) -> None:
        harness.register(2)
        assert register_error(harness, **changes) == code

    def test_a_live_broker_keeps_its_id_until_its_session_ends(self, harness: ControllerHarness) -> None:
        first = harness.start_broker(1)
        other = Uuid.from_int(999)
        assert register_error(harness, incarnation_id=other) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        harness.clock.ms += 9_000
        assert harness.register(1, incarnation_id=other) > first

    def test_a_new_controller_does_not_hold_a_session_against_a_restarted_broker(
        self, harness: ControllerHarness
    ) -> None:
        harness.start_broker(1)
        again = ControllerHarness(log=harness.log).activate()
        again.register(1, incarnation_id=Uuid.from_int(999))

    def test_the_same_incarnation_again_keeps_epoch_and_state(self, harness: ControllerHarness) -> None:
        epoch = harness.start_broker(1)
        assert harness.register(1, rack="r") == epoch
        broker = harness.controller.committed_image.cluster.brokers[1]
        assert (broker.rack, broker.fenced) == ("r", False)


class TestHeartbeat:
    def test_a_broker_is_unfenced_when_it_has_caught_up_and_asks(self, harness: ControllerHarness) -> None:
        harness.register(1)
        early = harness.heartbeat(1, current_metadata_offset=harness.end_offset - 2)
        assert (early.is_caught_up, early.is_fenced) == (False, True)
        waiting = harness.heartbeat(1, want_fence=True)
        assert (waiting.is_caught_up, waiting.is_fenced) == (True, True)
        assert not harness.heartbeat(1).is_fenced
        assert harness.log[-1].records == [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=12, fenced=-1)]

    def test_a_stale_epoch_and_an_unknown_broker_are_refused(self, harness: ControllerHarness) -> None:
        epoch = harness.start_broker(1)
        for broker, wrong in ((1, epoch + 1), (7, 1)):
            request = BrokerHeartbeatRequest(broker_id=broker, broker_epoch=wrong)
            assert harness.call(broker_heartbeat.handle, request).error_code == ErrorCode.STALE_BROKER_EPOCH

    def test_a_silent_broker_is_fenced_after_its_partitions_moved(self, trio: ControllerHarness) -> None:
        place(trio, "orders", 1, 2)
        trio.clock.ms += 8_999
        for broker in (2, 3):
            trio.heartbeat(broker)
        trio.controller.tick(trio.clock.ms)
        trio.settle()
        assert partition(trio, "orders").leader == 1
        trio.clock.ms += 1
        trio.controller.tick(trio.clock.ms)
        trio.settle()
        moved, fenced = trio.log[-1].records
        assert isinstance(moved, PartitionChangeRecord)
        assert (moved.leader, moved.isr) == (2, [2])
        assert fenced == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=fenced.broker_epoch, fenced=1)
        assert not trio.controller.committed_image.cluster.is_alive(1)

    def test_a_controller_that_was_paused_ends_no_session_for_unread_heartbeats(
        self, harness: ControllerHarness
    ) -> None:
        harness.start_broker(1)
        harness.clock.ms += 20_000
        harness.controller.stood_still(20_000, harness.clock.ms)
        harness.controller.tick(harness.clock.ms)
        harness.settle()
        assert not harness.controller.committed_image.cluster.brokers[1].fenced
        harness.clock.ms += 9_000
        harness.controller.tick(harness.clock.ms)
        harness.settle()
        assert harness.controller.committed_image.cluster.brokers[1].fenced

    def test_the_next_tick_is_due_when_a_session_ends_or_the_log_idles(self, harness: ControllerHarness) -> None:
        harness.start_broker(1)
        assert harness.controller.next_tick_ms() == harness.clock.ms + 500
        quiet = ControllerHarness(metadata_max_idle_interval_ms=0).activate()
        assert quiet.controller.next_tick_ms() == quiet.clock.ms + 300_000, "the periodic elections"
        quiet.start_broker(1)
        assert quiet.controller.next_tick_ms() == quiet.clock.ms + 9_000

    def test_a_broker_that_leads_shuts_down_in_two_steps(self, trio: ControllerHarness) -> None:
        place(trio, "orders", 1, 2)
        first = trio.heartbeat(1, want_shut_down=True)
        assert (first.should_shut_down, first.is_fenced) == (False, False)
        assert partition(trio, "orders").leader == 2
        change, moved = trio.log[-1].records
        assert (change.in_controlled_shutdown, moved.leader) == (1, 2)
        assert not trio.heartbeat(1, want_shut_down=True).should_shut_down, "the others don't know yet"
        for broker in (2, 3):
            trio.heartbeat(broker)
        assert trio.heartbeat(1, want_shut_down=True).should_shut_down
        assert trio.controller.committed_image.cluster.brokers[1].fenced

    def test_a_broker_that_leads_nothing_may_stop_immediately(self, harness: ControllerHarness) -> None:
        harness.start_broker(1)
        answer = harness.heartbeat(1, want_shut_down=True)
        assert (answer.should_shut_down, answer.is_fenced) == (True, True)

    def test_the_only_broker_may_stop_and_returns_to_its_partitions(self, harness: ControllerHarness) -> None:
        epoch = harness.start_broker(1)
        place(harness, "orders", 1)
        assert not harness.heartbeat(1, want_shut_down=True).should_shut_down
        assert harness.heartbeat(1, want_shut_down=True).should_shut_down
        gone = partition(harness, "orders")
        assert (gone.leader, gone.isr, gone.elr, gone.last_known_elr) == (NO_LEADER, (), (1,), (1,))
        harness.start_broker(1, incarnation_id=Uuid.from_int(999), previous_broker_epoch=epoch)
        back = partition(harness, "orders")
        assert (back.leader, back.isr, back.elr, back.last_known_elr) == (1, (1,), (), ())
        assert back.leader_recovery_state == LeaderRecoveryState.RECOVERED

    def test_cordoned_directories_are_registered_once(self, harness: ControllerHarness) -> None:
        harness.register(1)
        harness.heartbeat(1, want_fence=True, cordoned_log_dirs=[])
        end = harness.end_offset
        assert harness.controller.committed_image.cluster.brokers[1].cordoned_directories == ()
        harness.heartbeat(1, want_fence=True, cordoned_log_dirs=[])
        assert harness.end_offset == end

    def test_a_lost_directory_affects_only_its_own_partitions(self, harness: ControllerHarness) -> None:
        harness.start_broker(1, log_dirs=[directory_of(1, 0), directory_of(1, 1)])
        harness.start_broker(2)
        for index, name in enumerate(("stays", "moves")):
            place(harness, name, 1, 2)
            found = harness.controller.committed_image.topics.get(name)
            assert found is not None
            wanted = {(found.id, 0): directory_of(1, index)}
            epoch = harness.controller.committed_image.cluster.brokers[1].epoch
            assign = harness.controller.replication.alteration.assign_replicas_to_directories
            harness.answer(harness.controller.submit_in_turns(assign(1, epoch, wanted), lambda error: {}))
        harness.heartbeat(1, offline_log_dirs=[directory_of(1, 1)])
        assert (partition(harness, "stays").leader, partition(harness, "moves").leader) == (1, 2)
        assert partition(harness, "moves").isr == (2,)
        assert harness.controller.committed_image.cluster.brokers[1].directories == (directory_of(1, 0),)
        end = harness.end_offset
        harness.heartbeat(1, offline_log_dirs=[directory_of(1, 1)])
        assert harness.end_offset == end, "it is known by now"


class TestRestartAfterKill:
    def test_with_clean_detection_a_killed_sole_replica_returns_as_recovering(self, harness: ControllerHarness) -> None:
        harness.start_broker(1)
        place(harness, "orders", 1)
        again = ControllerHarness(log=harness.log).activate()
        again.register(1, incarnation_id=Uuid.from_int(999))
        lost = partition(again, "orders")
        assert (lost.leader, lost.isr, lost.elr, lost.last_known_elr) == (NO_LEADER, (), (), (1,))
        again.heartbeat(1)
        back = partition(again, "orders")
        assert (back.leader, back.isr, back.last_known_elr) == (1, (1,), ())
        assert back.leader_recovery_state == LeaderRecoveryState.RECOVERING

    def test_the_broker_epoch_precedes_the_clean_up_in_the_same_batch(self, harness: ControllerHarness) -> None:
        harness.start_broker(1)
        place(harness, "orders", 1)
        again = ControllerHarness(log=harness.log).activate()
        base = again.end_offset
        assert again.register(1, incarnation_id=Uuid.from_int(999)) == base
        assert [type(record).__name__ for record in again.log[-1].records] == [
            "PartitionChangeRecord",
            "RegisterBrokerRecord",
        ]
        assert again.controller.state.registration_offsets[1] == base + 1


class TestLeaving:
    def test_an_unregistered_broker_leaves_its_partitions_assigned(self, trio: ControllerHarness) -> None:
        place(trio, "orders", 1, 2)
        answer = trio.call(unregister_broker.handle, UnregisterBrokerRequest(broker_id=1))
        assert answer.error_code == 0
        assert partition(trio, "orders").leader == 2
        assert 1 not in trio.controller.committed_image.cluster.brokers

    def test_an_unknown_broker_cannot_be_unregistered(self, harness: ControllerHarness) -> None:
        answer = harness.call(unregister_broker.handle, UnregisterBrokerRequest(broker_id=99))
        assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert answer.error_message == "Broker ID 99 is not currently registered"


class TestProducerIds:
    def test_blocks_of_a_thousand_never_overlap(self, harness: ControllerHarness) -> None:
        epoch = harness.start_broker(1)
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
        blocks = [harness.call(allocate_producer_ids.handle, request) for _ in range(3)]
        assert [(b.producer_id_start, b.producer_id_len) for b in blocks] == [(0, 1000), (1000, 1000), (2000, 1000)]
        assert harness.controller.committed_image.producer_ids.next_producer_id == 3000

    def test_a_stale_broker_receives_no_producer_ids(self, harness: ControllerHarness) -> None:
        epoch = harness.start_broker(1)
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch - 1)
        assert harness.call(allocate_producer_ids.handle, request).error_code == ErrorCode.STALE_BROKER_EPOCH


class TestControllers:
    def test_a_controller_registers_with_its_features(self, harness: ControllerHarness) -> None:
        request = ControllerRegistrationRequest(controller_id=1, incarnation_id=Uuid.from_int(5))
        request.features = [
            ControllerFeature(name=f.name, min_supported_version=f.min_supported_version, max_supported_version=9999)
            for f in harness.registration(1).features
        ]
        assert harness.call(controller_registration.handle, request).error_code == 0
        assert harness.controller.committed_image.cluster.controllers[1].incarnation_id == Uuid.from_int(5)

    def test_a_controller_without_a_finalized_level_is_refused(self, harness: ControllerHarness) -> None:
        request = ControllerRegistrationRequest(controller_id=1, incarnation_id=Uuid.from_int(5))
        assert harness.call(controller_registration.handle, request).error_code == ErrorCode.UNSUPPORTED_VERSION
