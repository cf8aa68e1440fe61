"""A full disk refuses what needs space below its folder, and nothing else."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.testing.full_disk import fill_disk, free_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    (folder / "file").write_bytes(b"before")
    fill_disk(str(folder))
    yield folder
    free_disk(str(folder))


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR)


WRITES: dict[str, Callable[[Path], object]] = {
    "write": lambda disk: os.write(opened(disk / "file"), b"x"),
    "pwrite": lambda disk: os.pwrite(opened(disk / "file"), b"x", 0),
    "pwritev": lambda disk: os.pwritev(opened(disk / "file"), [b"x"], 0),
    "ftruncate": lambda disk: os.ftruncate(opened(disk / "file"), 100),
    "open": lambda disk: os.open(disk / "new", os.O_CREAT | os.O_WRONLY),
    "mkdir": lambda disk: os.mkdir(disk / "new"),
    "makedirs": lambda disk: os.makedirs(disk / "new" / "more"),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_fails_and_names_the_file(disk: Path, name: str) -> None:
    with pytest.raises(OSError, match="No space left on device") as refused:
        WRITES[name](disk)
    assert refused.value.errno == errno.ENOSPC
    assert str(refused.value.filename).startswith(str(disk))


def test_reading_shrinking_and_deleting_work(disk: Path) -> None:
    fd = opened(disk / "file")
    assert os.pread(fd, 6, 0) == b"before"
    os.ftruncate(fd, 3)
    os.rename(disk / "file", disk / "renamed")
    os.unlink(disk / "renamed")
    os.close(fd)


def test_other_folders_and_sockets_are_not_affected(disk: Path, tmp_path: Path) -> None:
    fd = os.open(tmp_path / "disk-2", os.O_CREAT | os.O_WRONLY)
    assert os.write(fd, b"x") == 1
    os.close(fd)
    reads, writes = os.pipe()
    assert os.write(writes, b"x") == 1
    os.close(reads)
    os.close(writes)


def test_a_disk_with_space_again_runs_the_original_functions(disk: Path) -> None:
    during = os.pwrite
    free_disk(str(disk))
    assert os.pwrite is not during
    assert WRITES["pwrite"](disk) == 1
