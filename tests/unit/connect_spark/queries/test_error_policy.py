from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect_spark.queries.error_policy import ErrorPolicy, backoff_s


def test_by_default_nothing_is_tolerated_logged_or_tried_again() -> None:
    policy = ErrorPolicy.of({})
    assert not policy.tolerates
    assert not policy.wants_bad_records
    assert backoff_s(0, policy, 0) is None


def test_bad_records_are_wanted_only_where_somebody_gets_them() -> None:
    tolerant = {"errors.tolerance": "all"}
    assert not ErrorPolicy.of(tolerant).wants_bad_records
    assert ErrorPolicy.of(tolerant | {"errors.log.enable": "true"}).wants_bad_records
    assert ErrorPolicy.of(tolerant | {"errors.deadletterqueue.topic.name": "dead"}).wants_bad_records


def test_retries_double_up_to_their_most_and_end_with_the_time() -> None:
    policy = ErrorPolicy.of({"errors.retry.timeout": "10000", "errors.retry.delay.max.ms": "1000"})
    assert [backoff_s(attempt, policy, 0) for attempt in range(4)] == [0.3, 0.6, 1.0, 1.0]
    assert backoff_s(5, policy, 9_900) == 0.1
    assert backoff_s(5, policy, 10_000) is None


@given(attempt=st.integers(0, 10_000), elapsed=st.integers(0, 1 << 40))
def test_for_ever_is_for_ever_and_never_longer_than_the_most(attempt: int, elapsed: int) -> None:
    wait_s = backoff_s(attempt, ErrorPolicy.of({"errors.retry.timeout": "-1"}), elapsed)
    assert wait_s is not None
    assert 0.3 <= wait_s <= 60
