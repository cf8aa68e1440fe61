from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from barnabas.connect.decide.backing_stores.status_records import StatusRecord
from barnabas.connect.run.internal_topics import status_writer
from barnabas.connect.run.internal_topics.status_writer import StatusWriter
from barnabas.connect.run.internal_topics.topic_writer import WriteFailed

FIRST: StatusRecord = (b"status-task-c-0", b"first")
SECOND: StatusRecord = (b"status-task-c-0", b"second")
OTHER: StatusRecord = (b"status-task-c-1", b"other")


class Log:
    """A log that fails the given number of times and then accepts all records."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.written: list[StatusRecord] = []

    async def write(self, records: Sequence[StatusRecord]) -> None:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise WriteFailed("not now")
        self.written += records


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_writer, "_PAUSE_S", 0.0)


def written(log: Log, *records: StatusRecord) -> list[StatusRecord]:
    async def main() -> None:
        writer = StatusWriter(log.write)
        async with asyncio.timeout(20):
            await asyncio.gather(*(writer.write(record) for record in records))

    asyncio.run(main())
    return log.written


def test_a_status_write_is_retried_until_it_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    assert written(Log(failures=3), FIRST) == [FIRST]
    assert caplog.text.count("a status was not written: not now") == 3


def test_a_failed_status_is_not_written_after_a_newer_one_of_its_key() -> None:
    assert written(Log(failures=1), FIRST, SECOND) == [SECOND]


def test_a_retry_is_independent_of_statuses_of_other_keys() -> None:
    assert sorted(written(Log(failures=2), FIRST, OTHER)) == [FIRST, OTHER]


def test_successful_statuses_are_written_in_order() -> None:
    assert written(Log(), FIRST, SECOND, OTHER) == [FIRST, SECOND, OTHER]
