from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect_spark.queries.error_policy import ErrorPolicy, backoff_s


def test_by_default_nothing_is_tolerated_logged_or_retried() -> None:
    policy = ErrorPolicy.of({})
    assert not policy.tolerates
    assert not policy.wants_bad_records
    assert backoff_s(0, policy, 0) is None


def test_bad_records_are_collected_only_if_they_are_logged_or_sent_to_a_topic() -> None:
    tolerant = {"errors.tolerance": "all"}
    assert not ErrorPolicy.of(tolerant).wants_bad_records
    assert ErrorPolicy.of(tolerant | {"errors.log.enable": "true"}).wants_bad_records
    assert ErrorPolicy.of(tolerant | {"errors.deadletterqueue.topic.name": "dead"}).wants_bad_records


def test_retry_delays_double_up_to_the_maximum_and_end_with_the_timeout() -> None:
    policy = ErrorPolicy.of({"errors.retry.timeout": "10000", "errors.retry.delay.max.ms": "1000"})
    assert [backoff_s(attempt, policy, 0) for attempt in range(4)] == [0.3, 0.6, 1.0, 1.0]
    assert backoff_s(5, policy, 9_900) == 0.1
    assert backoff_s(5, policy, 10_000) is None


@given(attempt=st.integers(0, 10_000), elapsed=st.integers(0, 1 << 40))
def test_unlimited_retries_never_end_and_never_exceed_the_maximum_delay(attempt: int, elapsed: int) -> None:
    wait_s = backoff_s(attempt, ErrorPolicy.of({"errors.retry.timeout": "-1"}), elapsed)
    assert wait_s is not None
    assert 0.3 <= wait_s <= 60
