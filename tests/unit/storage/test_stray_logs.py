"""Directories that belong to no replica: renamed and kept, listed, and taken back when they match."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.log_manager import LogManager
from barnabas.storage.partition_metadata import read_partition_metadata, write_partition_metadata
from barnabas.storage.stray_directory import StrayDirectory, list_strays, stray_directory_name, stray_usage
from barnabas.storage.stray_logs import LogWithheld
from tests.unit.storage.log_driver import NOW_MS, TOPIC_ID, append, batch, offsets_and_values

A0 = TopicPartition("a", 0)
OTHER_ID = Uuid.from_int(777)

Start = Callable[[], LogManager]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[LogManager] = []

    def unlock() -> None:
        for manager in started:
            for directory in manager.directories.all:
                directory.unlock()

    def start() -> LogManager:
        unlock()
        manager = LogManager([str(tmp_path)])
        started.append(manager)
        manager.startup(now_ms=NOW_MS)
        return manager

    yield start
    unlock()


def written(manager: LogManager, *, epoch: int = 0) -> None:
    log = manager.get_or_create(A0, TOPIC_ID, now_ms=NOW_MS)
    append(log, batch(b"one", b"two"), epoch=epoch)
    log.flush(NOW_MS)


def strays_in(path: Path) -> list[StrayDirectory]:
    return list_strays(str(path))


def test_a_log_of_another_topic_id_is_kept_and_a_new_one_is_created(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(start())
    manager = start()
    log = manager.get_or_create(A0, OTHER_ID, now_ms=NOW_MS)
    assert (log.topic_id, log.log_end_offset) == (OTHER_ID, 0)
    (stray,) = strays_in(tmp_path)
    assert (stray.topic_partition, stray.topic_id) == (A0, TOPIC_ID)
    assert "the topic has" in stray.reason
    assert stray_usage(stray.path).records == 2
    assert stray.path in caplog.text
    assert len(manager.strays) == 1


def test_a_stray_is_found_again_by_the_next_start_and_never_deleted(start: Start, tmp_path: Path) -> None:
    written(start())
    manager = start()
    manager.set_aside(manager.logs()[0], "a reason", now_ms=NOW_MS)
    for _ in range(2):
        manager = start()
        manager.remove_deleted(NOW_MS + 10**9)
        assert [(stray.topic_partition, stray.reason) for stray in manager.strays.known.values()] == [(A0, "a reason")]
        assert manager.get(A0) is None


def test_a_stray_is_taken_back_when_name_id_and_epoch_match(start: Start, tmp_path: Path) -> None:
    written(start(), epoch=3)
    manager = start()
    manager.set_aside(manager.logs()[0], "a reason", now_ms=NOW_MS)
    adopted = start().get_or_create(A0, TOPIC_ID, now_ms=NOW_MS, leader_epoch=3)
    adopted.maybe_advance_high_watermark(2)
    assert offsets_and_values(adopted) == [(0, b"one"), (1, b"two")]
    assert strays_in(tmp_path) == []
    assert not list((tmp_path / "a-0").glob("barnabas*"))


def test_a_damaged_stray_is_taken_back_without_truncation(start: Start, tmp_path: Path) -> None:
    manager = start()
    written(manager)
    log = manager.logs()[0]
    append(log, batch(b"three"))
    manager.set_aside(log, "a reason", now_ms=NOW_MS)
    path = Path(strays_in(tmp_path)[0].path, "00000000000000000000.log")
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    adopted = start().get_or_create(A0, TOPIC_ID, now_ms=NOW_MS, leader_epoch=3)
    assert Path(adopted.active_segment.path).read_bytes() == content
    assert [(damage.first_offset, damage.next_offset) for damage in adopted.damaged] == [(0, 2)]
    assert adopted.log_end_offset == 3


@pytest.mark.parametrize(("topic_id", "leader_epoch"), [(OTHER_ID, 3), (TOPIC_ID, 2)])
def test_a_stray_that_does_not_match_stays_a_stray(
    start: Start, tmp_path: Path, topic_id: Uuid, leader_epoch: int
) -> None:
    written(start(), epoch=3)
    manager = start()
    manager.set_aside(manager.logs()[0], "a reason", now_ms=NOW_MS)
    log = manager.get_or_create(A0, topic_id, now_ms=NOW_MS, leader_epoch=leader_epoch)
    assert log.log_end_offset == 0
    assert [stray_usage(stray.path).records for stray in strays_in(tmp_path)] == [2]


@pytest.mark.parametrize(
    "content", [None, b"", b"garbage", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAADCQ", b"\xff\xfe"]
)
def test_a_lost_or_changed_topic_id_is_restored_from_its_copy(
    start: Start, tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    manager = start()
    written(manager)
    manager.topic_id_notes.write()
    path = tmp_path / "a-0" / "partition.metadata"
    path.unlink() if content is None else path.write_bytes(content)
    log = start().get_or_create(A0, TOPIC_ID, now_ms=NOW_MS)
    assert log.log_end_offset == 2
    assert read_partition_metadata(str(tmp_path / "a-0")) == TOPIC_ID
    assert str(path) in caplog.text


def test_an_outdated_copy_of_the_id_changes_nothing(start: Start, tmp_path: Path) -> None:
    manager = start()
    written(manager)
    manager.topic_id_notes.write()
    write_partition_metadata(str(tmp_path / "a-0"), OTHER_ID)
    assert start().get_or_create(A0, OTHER_ID, now_ms=NOW_MS).log_end_offset == 2


def test_records_of_an_unknown_topic_are_kept_and_not_replaced_by_an_empty_log(start: Start, tmp_path: Path) -> None:
    written(start())
    (tmp_path / "a-0" / "partition.metadata").unlink()
    for _ in range(2):
        with pytest.raises(LogWithheld, match=r"partition.metadata .*storage strays --remove"):
            start().get_or_create(A0, TOPIC_ID, now_ms=NOW_MS)
        assert [(stray.topic_id, stray_usage(stray.path).records) for stray in strays_in(tmp_path)] == [(None, 2)]
    (stray,) = strays_in(tmp_path)
    write_partition_metadata(stray.path, TOPIC_ID)
    assert start().get_or_create(A0, TOPIC_ID, now_ms=NOW_MS).log_end_offset == 2


def test_a_follower_copies_such_records_again_and_keeps_the_old_ones(start: Start, tmp_path: Path) -> None:
    written(start())
    (tmp_path / "a-0" / "partition.metadata").unlink()
    manager = start()
    log = manager.get_or_create(A0, TOPIC_ID, now_ms=NOW_MS, is_followed=True)
    assert log.log_end_offset == 0
    assert manager.strays.withheld == {}
    assert len(strays_in(tmp_path)) == 1


def test_an_empty_log_without_an_id_receives_it(start: Start, tmp_path: Path) -> None:
    manager = start()
    manager.get_or_create(A0, TOPIC_ID, now_ms=NOW_MS)
    (tmp_path / "a-0" / "partition.metadata").write_bytes(b"")
    assert start().get_or_create(A0, TOPIC_ID, now_ms=NOW_MS).topic_id == TOPIC_ID
    assert read_partition_metadata(str(tmp_path / "a-0")) == TOPIC_ID


def test_a_damaged_copy_of_the_ids_is_written_again(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = start()
    written(manager)
    manager.topic_id_notes.write()
    (tmp_path / "barnabas-topic-ids").write_bytes(b"\xff\x00garbage")
    with caplog.at_level(logging.WARNING):
        manager = start()
    assert str(tmp_path / "barnabas-topic-ids") in caplog.text
    manager.topic_id_notes.write()
    assert (tmp_path / "barnabas-topic-ids").read_text() == f"0\n1\na 0 {TOPIC_ID}\n"


def test_kafkas_strays_are_found_by_their_names(tmp_path: Path) -> None:
    name = stray_directory_name(TopicPartition("a.b-c", 12), "0123456789abcdef" * 2)
    assert name == "a.b-c-12.0123456789abcdef0123456789abcdef-stray"
    (tmp_path / name).mkdir()
    (stray,) = strays_in(tmp_path)
    assert (stray.topic_partition, stray.topic_id) == (TopicPartition("a.b-c", 12), None)


def test_the_longest_topic_name_is_shortened_in_the_directory_and_kept_in_its_file(tmp_path: Path) -> None:
    topic_partition = TopicPartition("t" * 249, 3)
    path = tmp_path / stray_directory_name(topic_partition, "0" * 32)
    path.mkdir()
    StrayDirectory(str(path), topic_partition, None, "why").write_note()
    assert [stray.topic_partition for stray in strays_in(tmp_path)] == [topic_partition]
