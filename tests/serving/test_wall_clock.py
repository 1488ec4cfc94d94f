"""A wall clock that jumps removes nothing that is young."""

from __future__ import annotations

import time

import pytest
from tests.serving.growing import Running

from recurrank.serving import wall_clock
from recurrank.serving.retention import JUMPED, Policy
from recurrank.serving.store import base
from recurrank.serving.verify import verify
from recurrank.serving.wall_clock import CATCH_UP, WallClock

DAY, HOUR = 86_400.0, 3_600.0


class Clocks:
    """Both clocks of the machine, each with an offset that is set by hand."""

    def __init__(self, running: bool) -> None:
        self.running, self.wall, self.steady = running, 0.0, 0.0

    def time(self) -> float:
        return (time.time() if self.running else 1e9) + self.wall

    def monotonic(self) -> float:
        return (time.monotonic() if self.running else 100.0) + self.steady

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def __getattr__(self, name):
        return getattr(time, name)


@pytest.fixture
def clocks(monkeypatch):
    clocks = Clocks(running=False)
    monkeypatch.setattr(wall_clock, "time", clocks)
    return clocks


def test_a_clock_that_is_right_is_believed(clocks):
    clock = WallClock()
    for seconds in (0.0, 5.0, DAY):
        clocks.pass_(seconds)
        assert (clock.now(), clock.jumped()) == (clocks.time(), False)


@pytest.mark.parametrize("before", [5.0, 40 * DAY], ids=["looking often", "looking for the first time in weeks"])
def test_a_short_jump_forward_is_not_believed(clocks, before):
    clock = WallClock()
    clocks.pass_(before)
    clocks.wall += 40 * DAY
    for _ in range(6):
        clocks.pass_(5.0)
        assert clock.jumped()
        assert clock.now() <= clocks.time() - 40 * DAY + 6 * CATCH_UP
    clocks.wall -= 40 * DAY
    assert (clock.now(), clock.jumped()) == (clocks.time(), False)


def test_a_jump_is_believed_once_the_clock_has_kept_it_for_as_long(clocks):
    clock, waited = WallClock(), 0
    clocks.wall += HOUR
    while clock.jumped():
        clocks.pass_(5.0)
        waited += 5
    assert HOUR - 60 <= waited <= HOUR
    for _ in range(12):
        clocks.pass_(5.0)
        clock.jumped()
    assert clock.now() == clocks.time()


def test_a_jump_back_is_no_reason_to_distrust_what_follows(clocks):
    clock = WallClock()
    clocks.wall -= 40 * DAY
    clocks.pass_(5.0)
    assert (clock.now(), clock.jumped()) == (clocks.time(), False)
    clocks.wall += 40 * DAY
    assert (clock.now(), clock.jumped()) == (clocks.time(), False)


def test_young_events_stay_whichever_way_the_clock_jumps(address, monkeypatch):
    clocks = Clocks(running=True)
    monkeypatch.setattr(wall_clock, "time", clocks)
    monkeypatch.setattr(base, "time", clocks)  # of events
    running = Running(address, Policy(seconds=HOUR))
    retention, store = running.service.retention, running.service.store
    running.rounds(400)
    running.states()

    clocks.wall += 40 * DAY
    running.rounds(50)
    assert (retention.step(), retention.failed) == (0, JUMPED)
    clocks.wall -= 40 * DAY
    assert (retention.step(), retention.failed) == (0, None)

    clocks.wall -= 40 * DAY
    running.rounds(500)  # most events seem old afterwards
    assert retention.step() == 0
    clocks.wall += 40 * DAY
    running.rounds(50)
    running.states()
    assert (retention.step(), retention.failed, store.floor().seq) == (0, None, 0)

    written = store.newest()
    clocks.pass_(2 * HOUR)
    running.rounds(50)
    running.states()
    assert retention.step() > 0, retention.failed
    assert written * 0.9 < store.floor().seq <= store.newest()
    assert verify(store).faults == []
    running.service.close()
