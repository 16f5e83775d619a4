"""Where the requests of a strategy go."""

from __future__ import annotations

from typing import Protocol

__all__ = ["OrderPort"]


class OrderPort(Protocol):
    """Where requests go. Native in a run; anything that keeps frames in a test or a replay.

    All arguments are ints and positional: this is called once per order, on the hot path.
    """

    def submit(
        self,
        action: int,
        order_type: int,
        time_in_force: int,
        side: int,
        instrument_id: int,
        price: int,
        quantity: int,
        order_id: int,
        request_id: int,
        /,
    ) -> int:
        """Append an OrderInput frame to the strategy's stream; returns its seq."""

    def reject_local(
        self,
        action: int,
        reason: int,
        side: int,
        instrument_id: int,
        price: int,
        quantity: int,
        filled: int,
        order_id: int,
        request_id: int,
        /,
    ) -> int:
        """Append an OrderReport frame, status rejected, to the strategy's own stream; returns its seq."""

    def set_timer(self, timer_id: int, due_ns: int, /) -> None:
        """Fire a Timer event once, when the strategy's clock reaches `due_ns`."""

    def cancel_timer(self, timer_id: int, /) -> bool:
        """Forget a timer; False when it has fired or never was."""

    def now_ns(self, /) -> int:
        """The strategy's clock: event time for recordings, else monotonic."""
