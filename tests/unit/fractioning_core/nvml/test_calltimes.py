from __future__ import annotations

import threading

from fractioning_core.nvml.calltimes import CallTimes
from fractioning_core.nvml.samples import CallTime


class TestCallTimes:
    def test_what_was_added(self) -> None:
        """
        Times are given once, oldest first, with the error where there was one.
        """
        times = CallTimes()
        times.add("Init", 0.5, "")
        times.add("DeviceGetCount", 0.25, "UNKNOWN")

        assert (CallTime("Init", 0.5), CallTime("DeviceGetCount", 0.25, "UNKNOWN")) == times.take()
        assert () == times.take()

    def test_more_than_there_is_room_for(self) -> None:
        """
        Of more than there is room for the oldest go, and are counted.
        """
        times = CallTimes(room=2)
        for seconds in (1.0, 2.0, 3.0, 4.0):
            times.add("Init", seconds, "")

        assert ((CallTime("Init", 3.0), CallTime("Init", 4.0)), 2) == (times.take(), times.dropped)

    def test_two_threads(self) -> None:
        """
        Taking while another thread adds loses nothing and counts nothing twice.
        """
        count = 20_000
        times = CallTimes(room=count)

        def add() -> None:
            for number in range(count):
                times.add("Init", float(number), "")

        adding = threading.Thread(target=add)
        adding.start()
        taken: list[float] = []
        while adding.is_alive():
            taken += [call.seconds for call in times.take()]
        taken += [call.seconds for call in times.take()]

        assert [float(number) for number in range(count)] == taken
