"""Drives ``KeyRotation``: the leader writes a session key when one is due, and reads it back (KIP-507).

After a failure the topic is read to its end before the next attempt, because the record may be in it all the same.
"""

from __future__ import annotations

import logging

from barnabas.connect.decide.backing_stores.config_records import session_key_record
from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.decide.session_key import KeyRotation, SessionKey
from barnabas.connect.errors import ConnectError

__all__ = ["SessionKeys"]

_LOOK_AGAIN_MS = 60_000
"""The maximum wait: the wall clock, which decides the age of keys, may have been set."""

log = logging.getLogger(__name__)


class SessionKeys:
    def __init__(self, context: HerderContext, rotation: KeyRotation) -> None:
        self._context = context
        self._rotation = rotation

    @property
    def key(self) -> SessionKey | None:
        return self._rotation.key

    def changed(self, key: SessionKey) -> None:
        """Note that a key was read."""
        self._rotation.read(key, self._now_ms)
        log.info("the session key was updated")

    def start(self) -> None:
        self._context.outside.start(self._rotate())

    @property
    def _now_ms(self) -> int:
        return self._context.outside.now_ms()

    @property
    def _monotonic_ms(self) -> float:
        return self._context.outside.monotonic_ms()

    async def _rotate(self) -> None:
        context, rotation = self._context, self._rotation
        while True:
            await context.outside.until(lambda: context.group.is_settled)
            rotation.adopt(context.config.session_key, self._now_ms)
            key = rotation.poll(
                self._now_ms,
                self._monotonic_ms,
                is_leader=context.group.is_leader,
                protocol_version=context.group.protocol_version,
            )
            if key is not None:
                await self._write(key)
            else:
                await self._wait()

    async def _write(self, key: SessionKey) -> None:
        context = self._context
        try:
            with context.stages.during("writing a new session key to the config topic"):
                await context.config_writes.write((session_key_record(key),))
                await context.outside.read_configs_to_end(context.settings.write_timeout_ms)
            if self._rotation.is_writing:
                raise ConnectError("the record was missing when the topic was read back")
        except (ConnectError, OSError) as error:
            log.warning("the session key could not be written or read back: %s; trying again", error)
            self._rotation.failed(self._monotonic_ms)
            await self._read_to_end()

    async def _read_to_end(self) -> None:
        while True:
            try:
                await self._context.read_configs_to_end()
                return
            except (ConnectError, OSError) as error:
                log.warning("the config topic could not be read to its end: %s; trying again", error)
                await self._context.outside.sleep(1_000)

    async def _wait(self) -> None:
        """Wait until the group or the key changes, or the time of this key is over."""
        group, rotation = self._context.group, self._rotation
        seen = (group.is_leader, group.protocol_version, rotation.key)
        pause_ms = rotation.pause_ms(
            self._now_ms, self._monotonic_ms, is_leader=group.is_leader, protocol_version=group.protocol_version
        )
        pause_ms = _LOOK_AGAIN_MS if pause_ms is None else min(pause_ms, _LOOK_AGAIN_MS)
        await self._context.outside.until(
            lambda: (group.is_leader, group.protocol_version, rotation.key) != seen, max(pause_ms, 1)
        )
