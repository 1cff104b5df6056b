"""From counts of operations to seconds."""

from itertools import count

from mtgcn.machine_speed import Speeds, measured_speeds
from mtgcn.work import Work


def test_seconds_are_counts_over_speeds():
    speeds = Speeds(multiplied=1000.0, gathered=100.0, touched=10.0, calls=1.0)
    assert speeds.seconds(Work(multiplied=500, gathered=50, touched=5, calls=0.5)) == 2.0


def test_speeds_follow_the_clock():
    """With a clock that ticks whenever it is looked at, what is measured is how many operations were counted."""
    ticks = count()
    speeds = measured_speeds(10, clock=lambda: float(next(ticks)))
    assert speeds.multiplied == 1024 * 256 * 512 / 2  # begun, looked at once while it lasted, ended
    assert speeds.calls == 100
