from __future__ import annotations

from barnabas.broker.replication.directory_move import DirectoryMove, MoveStage
from barnabas.broker.replication.directory_reports import DirectoryReports
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid

SOURCE, TARGET = Uuid.from_int(201), Uuid.from_int(202)


def move() -> DirectoryMove:
    return DirectoryMove(TopicPartition("orders", 3), Uuid.from_int(1000), TARGET)


def test_a_move_is_flushed_then_reported_then_completed() -> None:
    moving = move()
    assert moving.key == (Uuid.from_int(1000), 3)
    assert moving.caught_up()
    assert moving.stage is MoveStage.FLUSHING
    assert not moving.caught_up(), "the flush is already under way"
    moving.flushed(is_assignment_needed=True)
    assert moving.stage is MoveStage.ASSIGNING
    assert moving.may_be_known
    moving.assigned(SOURCE)
    assert moving.stage is MoveStage.ASSIGNING, "the controller has not accepted it yet"
    moving.assigned(TARGET)
    assert moving.stage is MoveStage.COMPLETING


def test_a_move_is_not_reported_to_a_cluster_without_directories() -> None:
    moving = move()
    moving.caught_up()
    moving.flushed(is_assignment_needed=False)
    assert moving.stage is MoveStage.COMPLETING


def test_a_move_that_was_not_reported_needs_no_report_when_it_ends() -> None:
    moving = move()
    assert not moving.may_be_known
    moving.caught_up()
    assert not moving.may_be_known


def test_a_reported_move_is_completed_after_a_crash() -> None:
    moving = move()
    moving.assigned(TARGET)
    assert moving.stage is MoveStage.COMPLETING


def test_a_failed_directory_is_reported_forever_and_known_to_be_reported() -> None:
    reports = DirectoryReports()
    assert reports.is_reported(SOURCE)
    reports.failed(SOURCE)
    assert not reports.is_reported(SOURCE)
    offline = reports.offline
    reports.failed(TARGET)
    reports.note_reported(offline)
    assert reports.is_reported(SOURCE)
    assert not reports.is_reported(TARGET)
    reports.failed(SOURCE)
    assert reports.is_reported(SOURCE)
    assert reports.offline == [SOURCE, TARGET]
