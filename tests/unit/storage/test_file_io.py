"""System calls on files: complete writes, errors that name the file, and checks that treat an error as an error."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from barnabas.common.uuid import Uuid
from barnabas.storage.checkpoint_file import read_checkpoint, write_checkpoint
from barnabas.storage.file_io import exists, naming, pwrite_all, write_all
from barnabas.storage.offset_index import OffsetIndex
from barnabas.storage.partition_metadata import read_partition_metadata, write_partition_metadata
from barnabas.storage.recovery_point import RecoveryPoint


@pytest.fixture
def takes_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that accepts three bytes of each write."""
    write, pwrite = os.write, os.pwrite
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: pwrite(fd, data[:3], position))


def becomes_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write is short, the others fail."""
    write = os.write
    taken: list[int] = []

    def take(fd: int, data: bytes) -> int:
        if taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken.append(write(fd, data[: len(data) // 2]))
        return taken[0]

    monkeypatch.setattr(os, "write", take)


@pytest.mark.usefixtures("takes_a_part")
def test_every_small_file_is_written_completely_despite_short_writes(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    write_all(fd, b"0123456789")
    pwrite_all(fd, b"abcdefgh", 4)
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == b"0123abcdefgh"
    write_checkpoint(str(tmp_path / "checkpoint"), ["a 0 12", "b 1 5"])
    assert read_checkpoint(str(tmp_path / "checkpoint"), 3) == [["a", "0", "12"], ["b", "1", "5"]]
    write_partition_metadata(str(tmp_path), Uuid.from_int(7))
    assert read_partition_metadata(str(tmp_path)) == Uuid.from_int(7)
    RecoveryPoint(str(tmp_path), boot="b").advance(41, 0)
    assert RecoveryPoint(str(tmp_path), boot="b").offset == 41


def test_a_full_disk_keeps_the_old_checkpoint_and_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "checkpoint")
    write_checkpoint(path, ["a 0 12"])
    with monkeypatch.context() as patch:
        becomes_full(patch)
        with pytest.raises(OSError, match=path):
            write_checkpoint(path, ["a 0 13"])
    assert read_checkpoint(path, 3) == [["a", "0", "12"]]


def fails(*arguments: object, **options: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_an_error_on_a_descriptor_names_the_file_and_one_with_a_path_keeps_it() -> None:
    with pytest.raises(OSError, match="Input/output error: 'this'"), naming("this"):
        fails()
    with pytest.raises(OSError, match="'that'"), naming("this"):
        raise OSError(errno.EIO, "Input/output error", "that")


def test_an_error_of_an_existence_check_does_not_count_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exists(str(tmp_path))
    assert not exists(str(tmp_path / "other"))
    assert not exists(str(tmp_path / "other" / "below"))
    monkeypatch.setattr(os, "stat", fails)
    with pytest.raises(OSError, match="Input/output"):
        exists(str(tmp_path))


@pytest.mark.parametrize("call", ["pwrite", "ftruncate"])
def test_an_index_whose_write_failed_is_written_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    index = OffsetIndex(str(tmp_path / "0.index"), 0)
    index.append(5, 100)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fails)
        with pytest.raises(OSError, match=r"0\.index"):
            index.write()
    index.release()
    assert index.count == 1
    index.write()
    assert OffsetIndex(str(tmp_path / "0.index"), 0).count == 1
