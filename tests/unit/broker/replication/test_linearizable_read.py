"""When a leader may answer from its state. Broker 1 leads for 2 and 3, and its lease has expired long ago."""

from __future__ import annotations

from math import inf

from barnabas.broker.replication.linearizable_read import LeadershipRead
from barnabas.broker.replication.read_rounds import ReadRounds
from barnabas.broker.replication.replica_state import FollowerContact
from barnabas.metadata.image.partition_registration import DIRECTORY_UNASSIGNED, PartitionRegistration
from tests.unit.broker.replication.leader import Leader, registration

DEADLINE_S = 12.0


class World:
    def __init__(self, state: PartitionRegistration | None = None) -> None:
        self.leader = Leader(state=state)
        self.rounds = ReadRounds()
        self.contacts = {
            follower_id: FollowerContact(self.leader.now_ms) for follower_id in self.leader.replica.leadership.replicas
        }

    def fetches(self, *followers: int) -> None:
        """Send a fetch of each follower, with its response."""
        for follower in followers:
            contact = self.contacts[follower]
            contact.continues(self.leader.now_ms)
            self.leader.fetch(follower, 0, contact=contact, epoch_of_leader=-1)
            contact.answered_round = self.rounds.newest

    def read(self) -> LeadershipRead:
        return LeadershipRead({7: self.leader.replica}, read_round=self.rounds.begin(), deadline_s=DEADLINE_S)


def is_answered(read: LeadershipRead, now_s: float = 10.0, lease_until_s: float = -inf) -> bool | None:
    """Return the outcome; None if the read has to wait."""
    return not read.refused if read.is_decided(now_s, lease_until_s) else None


def test_a_read_is_answered_immediately_while_the_lease_holds() -> None:
    read = World().read()
    assert is_answered(read, lease_until_s=10.0) is None
    assert is_answered(read, lease_until_s=10.1)


def test_a_fetch_that_may_have_been_sent_before_the_read_confirms_nothing() -> None:
    """It was in the socket while this broker was stopped. The next fetch follows the response to this one."""
    world = World()
    world.fetches(2, 3)
    read = world.read()
    world.fetches(2, 3)
    assert is_answered(read) is None
    world.fetches(2)
    assert is_answered(read) is None
    world.fetches(3)
    assert is_answered(read)


def test_a_new_session_of_a_follower_begins_unconfirmed() -> None:
    world = World()
    world.fetches(2, 3)
    read = world.read()
    world.fetches(2, 3)
    world.contacts[3] = FollowerContact(world.leader.now_ms)
    world.leader.fetch(3, 0, contact=world.contacts[3])
    world.contacts[3].answered_round = world.rounds.newest
    world.fetches(2)
    assert is_answered(read) is None
    world.fetches(3)
    assert is_answered(read)


def test_a_follower_that_stopped_fetching_the_partition_confirms_nothing() -> None:
    world = World()
    read = world.read()
    world.fetches(2, 3)
    replica = world.leader.replica.follower(3, 5)
    world.fetches(2)
    world.contacts[3].continues(world.leader.now_ms)
    replica.lose_contact(world.contacts[3])  # Its fetch has a leader epoch that this broker does not know.
    assert is_answered(read) is None
    assert is_answered(read, DEADLINE_S) is False


def test_only_replicas_that_could_be_elected_count() -> None:
    world = World(registration(1, 2))
    read = world.read()
    world.fetches(2)
    world.fetches(2)
    assert is_answered(read)


def test_eligible_leader_replicas_could_be_elected_too() -> None:
    state = PartitionRegistration(
        replicas=(1, 2, 3), directories=(DIRECTORY_UNASSIGNED,) * 3, isr=(1,), leader=1, leader_epoch=5,
        partition_epoch=10, elr=(3,),
    )  # fmt: skip
    world = World(state)
    read = world.read()
    world.fetches(3)
    assert is_answered(read) is None
    world.fetches(3)
    assert is_answered(read)


def test_a_removed_replica_counts_until_the_metadata_log_makes_it_ineligible() -> None:
    world = World()
    world.fetches(2, 3)
    world.leader.append()
    world.leader.now_ms += 40_000
    world.leader.fetch(2, 1, contact=world.contacts[2])
    world.leader.check()
    world.leader.accept(1, 2)
    read = world.read()
    world.fetches(2)
    world.fetches(2)
    assert is_answered(read) is None
    world.leader.replica.update(registration(1, 2, partition_epoch=11), world.leader.now_ms)
    assert is_answered(read)


def test_a_leader_alone_in_sync_answers_without_confirmation() -> None:
    assert is_answered(World(registration(1)).read())


def test_a_read_is_refused_at_its_deadline_and_not_before() -> None:
    read = World().read()
    assert is_answered(read, 11.9) is None
    assert is_answered(read, DEADLINE_S) is False
    assert read.refused == {7}


def test_a_confirmation_counts_even_if_it_is_noticed_late() -> None:
    """All timers of a stopped process are late."""
    world = World()
    read = world.read()
    world.fetches(2, 3)
    world.fetches(2, 3)
    assert is_answered(read, DEADLINE_S + 60)


def test_reads_are_refused_immediately_when_leadership_ends_despite_the_lease() -> None:
    world = World()
    read = world.read()
    world.leader.replica.end()
    assert is_answered(read, lease_until_s=inf) is False


def test_a_new_leader_epoch_refuses_reads_of_the_previous_one() -> None:
    world = World()
    read = world.read()
    world.fetches(2, 3)
    world.fetches(2, 3)
    world.leader.replica.update(registration(leader_epoch=7, partition_epoch=12), world.leader.now_ms)
    assert is_answered(read, lease_until_s=inf) is False


def test_a_read_of_several_partitions_waits_for_the_last_of_them() -> None:
    world, other = World(), Leader(state=registration(1))
    read = LeadershipRead(
        {7: world.leader.replica, 8: other.replica}, read_round=world.rounds.begin(), deadline_s=DEADLINE_S
    )
    assert is_answered(read) is None
    assert is_answered(read, DEADLINE_S) is False
    assert read.refused == {7}


def test_a_stopping_broker_refuses_waiting_reads() -> None:
    read = World().read()
    read.give_up()
    assert is_answered(read) is False
