from __future__ import annotations

from barnabas.broker.replication.directory_move import DirectoryMove, MoveStage
from barnabas.broker.replication.directory_reports import DirectoryReports
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid

SOURCE, TARGET = Uuid.from_int(201), Uuid.from_int(202)


def move() -> DirectoryMove:
    return DirectoryMove(TopicPartition("orders", 3), Uuid.from_int(1000), TARGET)


def test_a_move_is_made_durable_then_told_then_completed() -> None:
    it = move()
    assert it.key == (Uuid.from_int(1000), 3)
    assert it.caught_up()
    assert it.stage is MoveStage.FLUSHING
    assert not it.caught_up(), "it is being made durable already"
    it.flushed(is_assignment_needed=True)
    assert it.stage is MoveStage.ASSIGNING
    assert it.may_be_known
    it.assigned(SOURCE)
    assert it.stage is MoveStage.ASSIGNING, "the controller has not taken it yet"
    it.assigned(TARGET)
    assert it.stage is MoveStage.COMPLETING


def test_a_cluster_that_knows_no_directories_is_not_told() -> None:
    it = move()
    it.caught_up()
    it.flushed(is_assignment_needed=False)
    assert it.stage is MoveStage.COMPLETING


def test_before_it_was_told_nobody_has_to_be_told_otherwise() -> None:
    it = move()
    assert not it.may_be_known
    it.caught_up()
    assert not it.may_be_known


def test_after_a_crash_a_move_that_was_told_goes_on_to_its_end() -> None:
    it = move()
    it.assigned(TARGET)
    assert it.stage is MoveStage.COMPLETING


def test_a_failed_directory_is_told_of_for_ever_and_known_to_be_told() -> None:
    reports = DirectoryReports()
    assert reports.is_told(SOURCE)
    reports.failed(SOURCE)
    assert not reports.is_told(SOURCE)
    told = reports.offline
    reports.failed(TARGET)
    reports.told(told)
    assert reports.is_told(SOURCE)
    assert not reports.is_told(TARGET)
    reports.failed(SOURCE)
    assert reports.is_told(SOURCE)
    assert reports.offline == [SOURCE, TARGET]
