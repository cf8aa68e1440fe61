"""What is fetched is written once, in order, and a slow or failed output is noticed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from barnabas.cli.records.printers import Printed, TextPrinter
from barnabas.cli.records.sink import RecordSink, harmless
from barnabas.cli.records.text_lines import Columns
from barnabas.clients.consumer.completed_fetch import Fetched
from barnabas.protocol.record_batch import BatchView, Record
from barnabas.protocol.record_batch_builder import build_batch


class FakeOutput:
    """It waits while ``is_open`` is not set, and raises ``error`` if there is one."""

    def __init__(self) -> None:
        self.data = b""
        self.is_open = threading.Event()
        self.is_open.set()
        self.error: OSError | None = None
        self.closed: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        self.is_open.wait(20)
        if self.error is not None:
            raise self.error
        self.data += data

    def watch(self, closed: Callable[[], None]) -> None:
        self.closed = closed


def fetched(start: int, count: int, size: int = 1) -> Fetched:
    records = [Record(start + step, 0, None, b"x" * size) for step in range(count)]
    return Fetched("orders", 0, start, [BatchView(build_batch(records, base_offset=start))])


def sinking(
    use: Callable[[RecordSink], Awaitable[None]], output: FakeOutput, limit: int | None = None
) -> tuple[RecordSink, list[Printed]]:
    written: list[Printed] = []

    async def main() -> RecordSink:
        sink = RecordSink(TextPrinter(Columns()), output, lambda _, printed: written.append(printed), limit=limit)
        async with asyncio.timeout(20):
            await use(sink)
        sink.close()
        return sink

    return asyncio.run(main()), written


def test_everything_is_written_in_order() -> None:
    output = FakeOutput()

    async def use(sink: RecordSink) -> None:
        for start in range(0, 10, 2):
            sink.put(fetched(start, 2))
        await sink.drain()
        assert not sink.ended.is_set()

    _, written = sinking(use, output)
    assert output.data == b"x\n" * 10
    assert [printed.next_offset for printed in written] == [2, 4, 6, 8, 10]


def test_the_sink_ends_at_the_limit() -> None:
    output = FakeOutput()

    async def use(sink: RecordSink) -> None:
        for start in range(0, 10, 2):
            sink.put(fetched(start, 2))
        await sink.ended.wait()
        await sink.drain()

    sink, written = sinking(use, output, limit=3)
    assert output.data == b"x\n" * 3
    assert [printed.next_offset for printed in written] == [2, 3]
    assert sink.failure is None


def test_a_slow_reader_stops_the_fetcher() -> None:
    output = FakeOutput()
    output.is_open.clear()

    async def use(sink: RecordSink) -> None:
        sink.put(fetched(0, 1, size=5_000_000))
        assert sink.room.is_set()
        sink.put(fetched(1, 1, size=5_000_000))
        assert not sink.room.is_set()
        output.is_open.set()
        await sink.room.wait()

    sinking(use, output)


def test_a_failed_output_ends_everything() -> None:
    output = FakeOutput()
    output.error = OSError(28, "No space left on device")

    async def use(sink: RecordSink) -> None:
        sink.put(fetched(0, 2))
        sink.put(fetched(2, 2))
        await sink.ended.wait()
        await sink.drain()

    sink, written = sinking(use, output)
    assert sink.failure is output.error
    assert written == []


def test_a_reader_that_closes_its_end_is_noticed_without_a_record() -> None:
    output = FakeOutput()

    async def use(sink: RecordSink) -> None:
        assert output.closed is not None
        output.closed()
        await sink.ended.wait()

    sink, _ = sinking(use, output)
    assert isinstance(sink.failure, BrokenPipeError)


def test_a_terminal_receives_no_control_characters() -> None:
    assert harmless(b"a\tb\x1b[31m\n\xff\x07\n") == b"a\tb\\x1b[31m\n\\xff\\x07\n"
