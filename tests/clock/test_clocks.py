"""Time moves forward only, and a virtual clock only when told."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from aliquot.clock import DAY, EPOCH, HOUR, RealClock, VirtualClock


def test_the_epoch_is_the_first_of_january_2026():
    assert datetime.fromtimestamp(EPOCH, UTC) == datetime(2026, 1, 1, tzinfo=UTC)
    assert DAY == 24 * HOUR == 86_400


def test_a_virtual_clock_stands_still_until_it_is_told():
    clock = VirtualClock()
    assert clock.virtual and clock.now() == clock.now() == EPOCH


def test_a_virtual_clock_jumps_to_the_very_moment():
    clock = VirtualClock(start=10.0)
    moment = 10.0 + 0.1 + 0.2
    clock.wait_until(moment)
    assert clock.now() == moment


@given(st.lists(st.floats(min_value=-1e12, max_value=1e12), max_size=20))
def test_a_virtual_clock_never_goes_back_and_never_falls_short(moments):
    clock, before = VirtualClock(), EPOCH
    for moment in moments:
        clock.wait_until(moment)
        assert clock.now() == max(before, moment)
        before = clock.now()


def test_virtual_clocks_are_independent():
    one, other = VirtualClock(), VirtualClock()
    one.wait_until(EPOCH + DAY)
    assert other.now() == EPOCH


def test_the_real_clock_is_the_wall_clock():
    clock = RealClock()
    assert not clock.virtual
    assert time.time() <= clock.now() <= time.time()


def test_the_real_clock_waits_until_the_moment_has_come():
    clock = RealClock()
    moment = clock.now() + 0.03
    clock.wait_until(moment)
    assert clock.now() >= moment


def test_the_real_clock_does_not_wait_for_the_past(monkeypatch):
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    RealClock().wait_until(0.0)
    assert naps == []
