"""A wait for an offset of the metadata log ends when the node has applied it, or at a timeout."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from barnabas.server.metadata_log.applied_offset import AppliedOffset


def applied(to: AppliedOffset, offset: int) -> None:
    image: Any = SimpleNamespace(offset=offset)
    nothing: Any = None
    to.publish(nothing, image, nothing)


def test_waiters_continue_in_the_order_of_their_offsets() -> None:
    async def run() -> list[int]:
        node, done = AppliedOffset(), []

        async def wait(offset: int) -> None:
            assert await node.reach(offset, 5)
            done.append(offset)

        tasks = [asyncio.ensure_future(wait(offset)) for offset in (7, 3, 5, 3)]
        await asyncio.sleep(0)
        for offset in (2, 3, 6):
            applied(node, offset)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            done.append(-offset)
        applied(node, 7)
        await asyncio.gather(*tasks)
        return done

    assert asyncio.run(run()) == [-2, 3, 3, -3, 5, -6, 7]


def test_an_applied_offset_causes_no_wait() -> None:
    async def run() -> bool:
        node = AppliedOffset()
        applied(node, 9)
        return await node.reach(9, 0)

    assert asyncio.run(run())


def test_a_waiter_that_times_out_is_notified_and_forgotten() -> None:
    async def run() -> bool:
        node = AppliedOffset()
        reached = await node.reach(9, 0.01)
        applied(node, 10)
        return reached

    assert not asyncio.run(run())
