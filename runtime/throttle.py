"""The built-in throttle: a strategy that loops is the first accident everyone has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["Throttle"]

_SECOND_NS: Final = 1_000_000_000


class Throttle:
    """A token bucket of `per_s` tokens a second that holds at most one second's worth, on the clock `now_ns`.

    Kept as the one time at which the bucket will be full again, in nanoseconds times the rate, so it is
    exact for every rate and the same in a replay.
    """

    __slots__ = ("_full_at", "_now_ns", "_per_s", "_span")

    def __init__(self, per_s: int, now_ns: Callable[[], int]) -> None:
        self._per_s = per_s
        self._now_ns = now_ns
        self._full_at = 0
        self._span = _SECOND_NS * (per_s - 1)

    def take(self) -> bool:
        """Take one token; False when there is none."""
        now = self._now_ns() * self._per_s
        full_at = self._full_at
        if full_at - now > self._span:
            return False
        self._full_at = (full_at if full_at > now else now) + _SECOND_NS
        return True
