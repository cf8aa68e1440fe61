from __future__ import annotations

import asyncio
import threading

import pytest

from barnabas.network.daemon_call import daemon_call


def test_the_result_and_the_error_of_the_call_arrive() -> None:
    def broken() -> int:
        raise ValueError("broken")

    async def story() -> None:
        assert await daemon_call(lambda: 7) == 7
        with pytest.raises(ValueError, match="broken"):
            await daemon_call(broken)

    asyncio.run(story())


def test_a_process_that_stops_does_not_wait_for_the_call() -> None:
    may_end = threading.Event()

    async def story() -> None:
        waiting = asyncio.ensure_future(daemon_call(lambda: may_end.wait(60)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(story())  # With asyncio.to_thread it returns when the call does.
    assert not may_end.is_set()
    may_end.set()
