"""Ctrl-C: the first asks, the second insists."""

from __future__ import annotations

import signal
import time

import pytest

from aliquot.cli.stopping import stopping


def until(true, seconds=10.0):
    """Wait for what another thread does."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_first_signal_asks_and_the_second_interrupts():
    said: list[str] = []
    with stopping(said.append) as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        until(lambda: len(said) == 1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_the_handlers_of_before_come_back():
    before = signal.getsignal(signal.SIGINT)
    with stopping(lambda _: None):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
