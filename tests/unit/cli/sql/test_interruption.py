"""How the shell ends when a signal arrives."""

from __future__ import annotations

import os
import signal

import pytest

from barnabas.cli.sql.interruption import exit_at_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_block_and_an_ignored_one_does_not(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as raised, exit_at_signals():
            os.kill(os.getpid(), number)
        assert raised.value.code == 128 + number
        assert signal.getsignal(number) is signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN)
        with exit_at_signals():
            os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)
