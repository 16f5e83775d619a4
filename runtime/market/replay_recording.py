"""A recording into a stream: the loop of a market data process that plays one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..._native import L2Book
from .binance import BinanceRecording
from .market_events import BookTickerEvent, DepthEvent, Event, TradeEvent
from .pace import Lockstep, Pacer

__all__ = ["Publisher", "play"]


class Publisher(Protocol):
    """Writes market frames; each call returns the frame's seq. `tapewire._native.MarketPublisher` is one."""

    def depth(
        self, instrument_id: int, exchange_time: int, receive_time: int, update_id: int, book: L2Book, /
    ) -> int:
        """The best ten levels of each side."""

    def book_ticker(
        self,
        instrument_id: int,
        exchange_time: int,
        receive_time: int,
        update_id: int,
        bid_price: int,
        bid_quantity: int,
        ask_price: int,
        ask_quantity: int,
        /,
    ) -> int:
        """The touch."""

    def trade(
        self,
        instrument_id: int,
        exchange_time: int,
        receive_time: int,
        trade_id: int,
        aggressor: int,
        price: int,
        quantity: int,
        /,
    ) -> int:
        """One execution."""

    def gap(self, instrument_id: int, expected: int, found: int, /) -> int:
        """Updates are missing; the book is not valid until the next depth with levels."""


def play(
    recording: BinanceRecording,
    publisher: Publisher,
    pacer: Pacer,
    lockstep: Lockstep | None = None,
    *,
    beat: Callable[[], None] = lambda: None,
    beat_events: int = 64,
) -> bool:
    """Publish every event of `recording` when it is due; True at its end, False when stopped before.

    A gap is two frames: the feed_gap, and a depth without levels, which ends the validity of the book for
    whoever only looks at depths.

    `beat` is called every `beat_events` events (heartbeats, counters). With `lockstep` each frame is waited
    for before the next line is looked at. Raises what the recording and the publisher raise.
    """
    left = beat_events
    for event in recording:
        if not pacer.wait_until_due(event.receive_time):
            recording.accounting.withdraw(event.kind)
            return False
        seq = _publish(publisher, event)
        if lockstep is not None and not lockstep.wait(seq):
            return False
        left -= 1
        if not left:
            left = beat_events
            beat()
    return True


def _publish(publisher: Publisher, event: Event) -> int:
    if isinstance(event, BookTickerEvent):
        return publisher.book_ticker(
            event.instrument_id,
            event.exchange_time,
            event.receive_time,
            event.update_id,
            event.bid_price,
            event.bid_quantity,
            event.ask_price,
            event.ask_quantity,
        )
    if isinstance(event, TradeEvent):
        return publisher.trade(
            event.instrument_id,
            event.exchange_time,
            event.receive_time,
            event.trade_id,
            event.aggressor,
            event.price,
            event.quantity,
        )
    if isinstance(event, DepthEvent):
        return publisher.depth(
            event.instrument_id, event.exchange_time, event.receive_time, event.update_id, event.book
        )
    publisher.gap(event.instrument_id, event.expected, event.found)
    # A depth without levels: a venue that went on filling at the last touch would trade against a market
    # that nobody has seen.
    return publisher.depth(event.instrument_id, 0, event.receive_time, event.expected - 1, event.book)
