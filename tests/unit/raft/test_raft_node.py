from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.record_batch import BatchView, iter_batches
from barnabas.protocol.records.leader_change_message import LeaderChangeMessage
from barnabas.raft.control_record_state_machine import ControlRecordStateMachine
from barnabas.raft.control_records import read_control_records
from barnabas.raft.election_state import ElectionState
from barnabas.raft.errors import NotLeaderException, RecordBatchTooLargeException
from barnabas.raft.leader_epochs import LeaderEpochs
from barnabas.raft.log_state import LogState
from barnabas.raft.ready import AppendedBatch, LeaderAndEpoch
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.voter_set import VoterSet
from tests.unit.raft.single_voter import CONFIG, TextSerde, only_voter, voter


def values_of(batch: AppendedBatch) -> list[str]:
    return [TextSerde().decode(record.value or b"") for record in BatchView(batch.data, 0).records()]


def test_the_only_voter_leads_immediately_and_persists_its_election() -> None:
    node = only_voter()
    ready = node.start(None, 0)
    assert node.state_name == "Leader"
    assert ready.election_state == ElectionState(epoch=1, leader_id=1)


def test_the_epoch_opens_with_leader_change_kraft_version_and_voters_in_one_batch() -> None:
    ready = only_voter().start(None, 0)
    (batch,) = ready.appends
    kinds = [type(record).__name__ for _, record in read_control_records(BatchView(batch.data, 0))]
    assert kinds == ["LeaderChangeMessage", "KRaftVersionRecord", "VotersRecord"]
    assert (batch.base_offset, batch.last_offset, batch.epoch) == (0, 2, 1)


def test_a_later_epoch_opens_with_leader_change_alone() -> None:
    first = only_voter().start(None, 0)
    log = LogState(end_offset=3, epochs=LeaderEpochs([(1, 0)]))
    control_records = ControlRecordStateMachine()
    control_records.replay_batch(BatchView(first.appends[0].data, 0))
    node = only_voter(log, control_records)
    (batch,) = node.start(ElectionState(1, 1), 0).appends
    ((offset, record),) = read_control_records(BatchView(batch.data, 0))
    assert isinstance(record, LeaderChangeMessage)
    assert (offset, record.leader_id, node.epoch) == (3, 1, 2)


def test_a_static_voter_writes_no_voters_into_the_log() -> None:
    config = replace(CONFIG, static_voters=VoterSet([replace(voter(1), key=ReplicaKey(1))]))
    (batch,) = only_voter(None, ControlRecordStateMachine(config.static_voters), config).start(None, 0).appends
    assert [type(record) for _, record in read_control_records(BatchView(batch.data, 0))] == [LeaderChangeMessage]


def test_nothing_is_committed_before_the_flush() -> None:
    node = only_voter()
    assert node.start(None, 0).high_watermark is None
    assert node.append(["a"], 1).committed == []
    assert node.high_watermark is None


def test_leadership_is_announced_after_the_first_commit_of_the_epoch() -> None:
    node = only_voter()
    started = node.start(None, 0)
    assert started.leader_and_epoch == LeaderAndEpoch(None, 1)
    flushed = node.log_flushed(3, 1)
    assert (flushed.high_watermark, flushed.leader_and_epoch) == (3, LeaderAndEpoch(1, 1))
    assert [batch.last_offset for batch in flushed.committed] == [2]


def test_records_are_delivered_when_they_are_committed() -> None:
    node = only_voter()
    node.start(None, 0)
    node.log_flushed(3, 0)
    ready = node.append(["a", "b"], 1)
    assert ready.last_offset == 4
    committed = node.log_flushed(5, 2).committed
    assert [batch.records for batch in committed] == [["a", "b"]]


def test_appends_during_a_flush_share_the_next_batch() -> None:
    node = only_voter()
    node.start(None, 0)
    node.log_flushed(3, 0)
    assert [values_of(batch) for batch in node.append(["a"], 1).appends] == [["a"]]
    assert node.append(["b"], 2).appends == []
    assert node.append(["c"], 3).appends == []
    ready = node.log_flushed(4, 4)
    assert [values_of(batch) for batch in ready.appends] == [["b", "c"]]


def test_an_append_waits_no_longer_than_the_linger_even_when_a_flush_hangs() -> None:
    node = only_voter()
    node.start(None, 0)
    node.log_flushed(3, 0)
    node.append(["a"], 1)
    node.append(["b"], 2)
    assert node.deadline_ms == 2 + CONFIG.append_linger_ms
    assert node.tick(26).appends == []
    assert [values_of(batch) for batch in node.tick(27).appends] == [["b"]]


def test_an_atomic_set_is_refused_when_it_does_not_fit_one_batch() -> None:
    config = replace(CONFIG, batch_max_bytes=200)
    node = only_voter(config=config)
    node.start(None, 0)
    with pytest.raises(RecordBatchTooLargeException, match="maximum allowed batch size of 200"):
        node.append(["x" * 50] * 3, 1)
    assert node.next_offset == 3


def test_a_non_atomic_set_is_split_by_size_and_by_count() -> None:
    node = only_voter(config=replace(CONFIG, batch_max_bytes=200, batch_max_records=2))
    node.start(None, 0)
    node.log_flushed(3, 0)
    by_size = node.append(["x" * 60] * 3, 1, is_atomic=False).appends
    assert [values_of(batch) for batch in by_size] == [["x" * 60]] * 3
    node.log_flushed(6, 2)
    by_count = node.append(list("abcde"), 3, is_atomic=False).appends
    assert [values_of(batch) for batch in by_count] == [["a", "b"], ["c", "d"], ["e"]]


def test_only_a_leader_accepts_records() -> None:
    node = only_voter()
    with pytest.raises(NotLeaderException):
        node.append(["a"], 0)
    node.start(None, 0)
    node.resign(node.epoch, 1)
    assert node.state_name in ("Resigned", "Leader")


def test_a_log_of_a_higher_epoch_than_the_election_file_wins() -> None:
    node = only_voter(LogState(end_offset=7, epochs=LeaderEpochs([(5, 0)])))
    assert node.start(ElectionState(3, 1), 0).election_state == ElectionState(6, 1)


def test_a_restarted_leader_does_not_continue_in_its_old_epoch() -> None:
    node = only_voter(LogState(end_offset=7, epochs=LeaderEpochs([(5, 0)])))
    node.start(ElectionState(5, 1), 0)
    assert (node.state_name, node.epoch) == ("Leader", 6)


def test_an_observer_never_stands_for_election() -> None:
    node = only_voter(config=replace(CONFIG, node_id=2, directory_id=voter(2).key.directory_id, can_be_voter=False))
    node.start(None, 0)
    node.tick(1 << 40)
    assert (node.state_name, node.epoch) == ("Unattached", 0)


@given(st.lists(st.lists(st.text(max_size=5), min_size=1, max_size=6), max_size=20), st.data())
def test_every_record_is_committed_once_in_order_however_appends_and_flushes_interleave(
    appends: list[list[str]], data: st.DataObject
) -> None:
    node = only_voter(config=replace(CONFIG, batch_max_bytes=300))
    written, committed, offsets = [node.start(None, 0)], [], []
    end_offset, now_ms = 3, 0
    for records in appends:
        now_ms += data.draw(st.integers(0, 30))
        if data.draw(st.booleans()):
            written.append(node.log_flushed(end_offset, now_ms))
        ready = node.append(records, now_ms, is_atomic=False)
        offsets.append(ready.last_offset)
        written.append(ready)
        end_offset = node.log_end_offset
    while node.high_watermark != node.next_offset:
        written.append(node.log_flushed(node.log_end_offset, now_ms))
    stored = [batch for ready in written for batch in ready.appends]
    for ready in written:
        committed.extend(record for batch in ready.committed for record in batch.records or ())
    assert committed == [record for records in appends for record in records]
    assert [batch.base_offset for batch in stored[1:]] == [batch.last_offset + 1 for batch in stored[:-1]]
    assert b"".join(bytes(batch.data) for batch in stored) == b"".join(
        bytes(view.tobytes()) for view in iter_batches(b"".join(bytes(batch.data) for batch in stored))
    )
