from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.decide.session_key import KeyRotation, SessionKey

HOUR = 3_600_000
OLD = SessionKey(b"o" * 32, "HmacSHA256", 1_000)


def rotation(*, algorithm: str = "HmacSHA256", size: int = 32, ttl_ms: int = HOUR) -> KeyRotation:
    filled: Iterator[int] = iter(range(1, 256))
    return KeyRotation(
        algorithm=algorithm, size=size, ttl_ms=ttl_ms, random_bytes=lambda count: bytes([next(filled)]) * count
    )


def poll(keys: KeyRotation, now_ms: int, *, is_leader: bool = True, version: int = 2) -> SessionKey | None:
    return keys.poll(now_ms, now_ms, is_leader=is_leader, protocol_version=version)


def due(keys: KeyRotation, now_ms: int, *, is_leader: bool = True, version: int = 2) -> int | None:
    """Return the due time when both clocks agree."""
    pause_ms = keys.pause_ms(now_ms, now_ms, is_leader=is_leader, protocol_version=version)
    return None if pause_ms is None else now_ms + int(pause_ms)


def test_a_leader_without_a_key_creates_one_of_the_configured_size_and_algorithm() -> None:
    keys = rotation(algorithm="AES", size=16)
    assert poll(keys, 5_000) == SessionKey(b"\x01" * 16, "AES", 5_000)


def test_a_new_key_is_used_only_after_it_was_read_back() -> None:
    keys = rotation()
    new = poll(keys, 5_000)
    assert new is not None
    assert keys.key is None
    keys.read(new, 5_010)
    assert keys.key == new


def test_no_second_key_is_created_while_one_is_being_written() -> None:
    keys = rotation()
    assert poll(keys, 0) is not None
    assert poll(keys, 10 * HOUR) is None
    assert due(keys, 10 * HOUR) is None


def test_only_a_worker_without_a_key_adopts_the_key_of_the_snapshot() -> None:
    keys = rotation()
    keys.adopt(None, 0)
    assert keys.key is None
    keys.adopt(OLD, 2_000)
    keys.adopt(SessionKey(b"n" * 32, "HmacSHA256", 2_000), 2_000)
    assert keys.key == OLD


def test_a_new_leader_keeps_the_key_and_rotates_it_exactly_on_expiry() -> None:
    keys = rotation()
    keys.adopt(OLD, 2_000)
    assert poll(keys, OLD.created_ms + HOUR - 1) is None
    assert due(keys, 2_000) == OLD.created_ms + HOUR
    assert poll(keys, OLD.created_ms + HOUR) is not None
    assert keys.key == OLD  # The old key is used until the next one is read.


def test_a_follower_creates_no_key_however_old_its_key_is() -> None:
    keys = rotation()
    keys.adopt(OLD, 2_000)
    assert poll(keys, 10 * HOUR, is_leader=False) is None
    assert due(keys, 10 * HOUR, is_leader=False) is None


@pytest.mark.parametrize("version", [0, 1])
def test_a_group_that_does_not_sign_creates_no_key_and_keeps_its_existing_one(version: int) -> None:
    keys = rotation()
    assert poll(keys, 0, version=version) is None
    keys.adopt(OLD, 2_000)
    assert poll(keys, 10 * HOUR, version=version) is None
    assert due(keys, 10 * HOUR, version=version) is None
    assert keys.key == OLD
    assert poll(keys, 3_000) is None  # Upgraded again before the key expires: the key stays in use.


@pytest.mark.parametrize(("algorithm", "size"), [("AES", 32), ("HmacSHA256", 64)])
def test_a_leader_replaces_a_key_of_another_algorithm_or_size(algorithm: str, size: int) -> None:
    keys = rotation(algorithm=algorithm, size=size)
    keys.adopt(OLD, 2_000)
    assert due(keys, 2_000) == 2_000
    assert poll(keys, 2_000) is not None


def test_with_a_time_to_live_of_zero_no_key_expires_not_even_an_adopted_one() -> None:
    keys = rotation(ttl_ms=0)
    keys.adopt(OLD, 2_000)
    assert poll(keys, 2**50) is None
    assert due(keys, 2**50) is None


def test_a_key_from_the_future_expires_no_later_than_others() -> None:
    keys = rotation()
    keys.adopt(SessionKey(b"f" * 32, "HmacSHA256", 2**50), 2_000)
    assert due(keys, 2_000) == 2_000 + HOUR


def test_failures_are_retried_with_growing_pauses_up_to_a_minute() -> None:
    keys = rotation()
    now = 0
    pauses = []
    for _ in range(12):
        assert poll(keys, now) is not None
        keys.failed(now)
        assert poll(keys, now) is None
        again = due(keys, now)
        assert again is not None
        pauses.append(again - now)
        now = again
    assert pauses == [250 * 2**step for step in range(8)] + [60_000] * 4


def test_a_key_that_is_read_after_its_write_failed_is_used_and_not_replaced() -> None:
    keys = rotation()
    new = poll(keys, 0)
    assert new is not None
    keys.failed(30_000)
    keys.read(new, 30_001)
    assert poll(keys, 30_001) is None
    keys.failed(30_002)
    assert due(keys, 30_002) == HOUR


def test_an_overdue_key_stays_in_use_while_its_replacement_is_retried() -> None:
    keys = rotation()
    keys.adopt(OLD, 2_000)
    late = OLD.created_ms + HOUR
    assert poll(keys, late) is not None
    keys.failed(late)
    assert keys.key == OLD
    assert due(keys, late) == late + 250
    assert poll(keys, late + 250) is not None


def test_a_success_resets_the_retry_pause() -> None:
    keys = rotation()
    for now in range(0, 400_000, 100_000):
        poll(keys, now)
        keys.failed(now)
    new = poll(keys, 500_000)
    assert new is not None
    keys.read(new, 500_000)
    late = new.created_ms + HOUR
    assert poll(keys, late) is not None
    keys.failed(late)
    assert due(keys, late) == late + 250


def test_setting_the_wall_clock_back_does_not_prevent_retries() -> None:
    keys = rotation()
    assert keys.poll(10 * HOUR, 0, is_leader=True, protocol_version=2) is not None
    keys.failed(0)
    assert keys.pause_ms(HOUR, 100, is_leader=True, protocol_version=2) == 150
    assert keys.poll(HOUR, 249, is_leader=True, protocol_version=2) is None
    assert keys.poll(HOUR, 250, is_leader=True, protocol_version=2) is not None


def test_a_key_is_never_shown() -> None:
    key = SessionKey(b"very secret", "HmacSHA256", 7)
    assert "secret" not in repr(key) + str(key)
    assert "[hidden]" in repr(key)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["poll", "poll follower", "failed", "read back", "other leader"]), st.integers(0, HOUR)
        ),
        max_size=40,
    )
)
def test_at_most_one_key_is_being_written_and_an_existing_key_is_never_lost(
    steps: list[tuple[str, int]],
) -> None:
    keys = rotation()
    now = 0
    being_written: SessionKey | None = None
    had_one = False
    for event, passes in steps:
        now += passes
        if event in ("poll", "poll follower"):
            new = poll(keys, now, is_leader=event == "poll")
            if new is not None:
                assert being_written is None
                assert event == "poll"
                being_written = new
        elif event == "failed":
            keys.failed(now)
            being_written = None
        elif event == "other leader":
            keys.read(SessionKey(b"x" * 32, "HmacSHA256", now), now)
            being_written = None
        elif being_written is not None:
            keys.read(being_written, now)
            assert keys.key == being_written
            being_written = None
        had_one = had_one or keys.key is not None
        assert (keys.key is not None) == had_one
        next_ms = due(keys, now)
        if next_ms is not None:
            assert poll(keys, next_ms - 1) is None or next_ms <= now
