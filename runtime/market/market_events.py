"""The events a recording is decoded to.

Prices are ints in 1e-9, quantities in 10**-quantity_exponent of the instrument, times ns since 1970
(0: unknown). `line` is the line of the recording that it came from, `kind` what that line is counted as.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from ..._native import L2Book

__all__ = ["BookTickerEvent", "DepthEvent", "Event", "GapEvent", "TradeEvent"]


class DepthEvent(msgspec.Struct, gc=False):
    """The book after one update or snapshot. `book` is the live one: read it before the next event.

    `exchange_time` is 0 for a snapshot, which carries none.
    """

    line: int
    instrument_id: int
    exchange_time: int
    receive_time: int
    update_id: int
    book: L2Book
    kind: str


class BookTickerEvent(msgspec.Struct, gc=False):
    """The touch as the exchange says; its `exchange_time` is 0, spot messages carry none."""

    line: int
    instrument_id: int
    receive_time: int
    update_id: int
    bid_price: int
    bid_quantity: int
    ask_price: int
    ask_quantity: int
    exchange_time: int = 0

    kind: ClassVar[str] = "book_ticker"


class TradeEvent(msgspec.Struct, gc=False):
    """One execution; `aggressor` is 1 (buy) or 2 (sell)."""

    line: int
    instrument_id: int
    exchange_time: int
    receive_time: int
    trade_id: int
    aggressor: int
    price: int
    quantity: int

    kind: ClassVar[str] = "trade"


class GapEvent(msgspec.Struct, gc=False):
    """Updates `expected` .. `found` - 1 are missing; no DepthEvent follows until the next snapshot.

    `book` is the live one, now empty.
    """

    line: int
    instrument_id: int
    receive_time: int
    expected: int
    found: int
    book: L2Book

    kind: ClassVar[str] = ""  # its line is still to be published or skipped


Event: TypeAlias = DepthEvent | BookTickerEvent | TradeEvent | GapEvent
