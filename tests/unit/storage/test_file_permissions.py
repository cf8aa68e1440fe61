"""Data on disk is readable for the owner and the group only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.common.topic_partition import TopicPartition
from barnabas.storage.log_manager import LogManager
from tests.unit.storage.log_driver import NOW_MS, TOPIC_ID, append, batch, config


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o002)
    yield
    os.umask(before)


def modes(root: Path) -> set[tuple[str, int]]:
    return {
        ("directory" if path.is_dir() else "file", stat.S_IMODE(path.stat().st_mode))
        for path in (root, *root.rglob("*"))
    }


def test_logs_and_checkpoints_are_hidden_from_other_users(tmp_path: Path) -> None:
    root = tmp_path / "data"
    manager = LogManager([str(root)])
    manager.startup(now_ms=NOW_MS)
    log = manager.get_or_create(
        TopicPartition("a", 0), TOPIC_ID, now_ms=NOW_MS, config=config(segment_bytes=1000, index_interval_bytes=100)
    )
    for index in range(20):
        append(log, batch(b"value", producer_id=5, producer_epoch=0, base_sequence=index))
    log.truncate_to(15, now_ms=NOW_MS)
    manager.checkpoint()
    manager.shutdown(now_ms=NOW_MS)
    assert modes(root) == {("directory", 0o750), ("file", 0o640)}
