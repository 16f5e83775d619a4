"""When the next event of a recording is due, and who must have seen the last one before it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Lockstep", "Pacer"]

# A request to stop is honoured within this time, also while the recording is silent for an hour.
_SLICE_NS = 20_000_000
# A sleep ends about this late; what an event is late by less than this is not worth counting.
_LATE_NS = 1_000_000


class Lockstep(Protocol):
    """`pace = "lockstep"`: the next event waits until everybody on the event path has consumed this one."""

    def wait(self, seq: int, /) -> bool:
        """Block until `seq` is consumed; False when the wait was given up because of a stop."""


class Pacer:
    """Publishes events as far apart as they were received, `factor` times faster; None does not wait at all.

    The first event is due at once and is the anchor of all others: a late event does not delay those after
    it. `late` counts events published more than 1 ms after they were due. `should_stop` is asked and
    `while_waiting` called (a heartbeat) at least every 20 ms of a wait.
    """

    def __init__(
        self,
        factor: float | None,
        *,
        should_stop: Callable[[], bool],
        while_waiting: Callable[[], None] = lambda: None,
        now_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if factor is not None and not factor > 0:
            raise ValueError(f"factor must be above zero, not {factor}")
        self.late = 0
        self._factor = factor
        self._should_stop = should_stop
        self._while_waiting = while_waiting
        self._now_ns = now_ns
        self._sleep = sleep
        self._first_time: int | None = None
        self._anchor_ns = 0

    def wait_until_due(self, receive_time: int) -> bool:
        """Sleep until the event received at `receive_time` (ns) is due; False when a stop was requested."""
        if self._factor is None:
            return not self._should_stop()
        if self._first_time is None:
            self._first_time = receive_time
            self._anchor_ns = self._now_ns()
        due = self._anchor_ns + round((receive_time - self._first_time) / self._factor)
        while (left := due - self._now_ns()) > 0:
            if self._should_stop():
                return False
            self._while_waiting()
            self._sleep(min(left, _SLICE_NS) * 1e-9)
        if left < -_LATE_NS:
            self.late += 1
        return not self._should_stop()
