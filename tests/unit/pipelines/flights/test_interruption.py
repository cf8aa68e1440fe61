from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from barnabas.pipelines.flights.interruption import Interrupted, Interruption


@pytest.fixture
def interruption() -> Iterator[Interruption]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    interruption = Interruption()
    interruption.install()
    yield interruption
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.usefixtures("interruption")
def test_a_signal_raises_an_exception_with_the_exit_status_of_the_shell(number: signal.Signals, status: int) -> None:
    with pytest.raises(Interrupted, match=number.name) as raised:
        signal.raise_signal(number)
    assert raised.value.exit_status == status


@pytest.mark.usefixtures("interruption")
def test_a_second_signal_does_not_interrupt_the_clean_up() -> None:
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)


def test_a_signal_during_an_ordinary_clean_up_is_ignored(interruption: Interruption) -> None:
    interruption.shield()
    signal.raise_signal(signal.SIGINT)


def test_an_interruption_is_not_swallowed_by_code_that_handles_errors() -> None:
    assert not issubclass(Interrupted, Exception)
