"""The built-in throttle: a strategy that loops is the first accident everyone has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["Throttle"]

_SECOND_NS: Final = 1_000_000_000


class Throttle:
    """A token bucket of `per_s` tokens a second that holds at most one second's worth, on the clock `now_ns`.

    Kept as the one time at which the bucket will be full again, in nanoseconds times the rate, so it is
    exact for every rate and the same in a replay. `spare` is how many tokens there were when it was last
    looked at. There can only be more by now, so a sender with a spare token need not ask the clock before it
    sends: it calls `take` afterwards. Without one, `refill` says whether time has brought any.
    """

    __slots__ = ("_full_at", "_now_ns", "_per_s", "_span", "spare")

    def __init__(self, per_s: int, now_ns: Callable[[], int]) -> None:
        self._per_s = per_s
        self._now_ns = now_ns
        self._full_at = 0
        self._span = _SECOND_NS * per_s
        self.spare = per_s

    def take(self) -> None:
        """One token is used."""
        now = self._now_ns() * self._per_s
        full_at = (self._full_at if self._full_at > now else now) + _SECOND_NS
        self._full_at = full_at
        self.spare = (self._span + now - full_at) // _SECOND_NS

    def refill(self) -> bool:
        """Look at the clock; whether there is a token now."""
        now = self._now_ns() * self._per_s
        full_at = self._full_at if self._full_at > now else now
        self.spare = (self._span + now - full_at) // _SECOND_NS
        return self.spare > 0
