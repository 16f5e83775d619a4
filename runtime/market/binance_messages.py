"""Typed decoding of Binance spot market data: combined-stream messages and REST depth snapshots.

A message is `{"stream": "<symbol>@<kind>", "data": {...}}`, a snapshot `{"lastUpdateId", "bids", "asks"}`
(Binance spot API, "WebSocket Streams" and "Order book"). Times are milliseconds since 1970, prices and
quantities are decimal strings.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

__all__ = ["BookTicker", "DepthUpdate", "Envelope", "Levels", "Snapshot", "Trade"]

Levels = list[tuple[str, str]]
Id = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=2**63 // 10**6)]


class Envelope(msgspec.Struct, gc=False):
    """The outer object of a line: of a stream message (`stream`, `data`) or of a snapshot."""

    stream: str = ""
    data: msgspec.Raw = msgspec.Raw()
    lastUpdateId: int = -1


class DepthUpdate(msgspec.Struct, gc=False):
    """`depthUpdate`: absolute quantities of the price levels that changed; "0" removes one."""

    event_ms: Milliseconds = msgspec.field(name="E")
    symbol: str = msgspec.field(name="s")
    first_id: Id = msgspec.field(name="U")
    last_id: Id = msgspec.field(name="u")
    bids: Levels = msgspec.field(name="b")
    asks: Levels = msgspec.field(name="a")


class Snapshot(msgspec.Struct, gc=False):
    """A REST depth snapshot; it names no symbol and no time."""

    last_id: Id = msgspec.field(name="lastUpdateId")
    bids: Levels
    asks: Levels


class BookTicker(msgspec.Struct, gc=False):
    """`bookTicker`: the touch. Spot messages carry no time."""

    update_id: Id = msgspec.field(name="u")
    symbol: str = msgspec.field(name="s")
    bid: str = msgspec.field(name="b")
    bid_quantity: str = msgspec.field(name="B")
    ask: str = msgspec.field(name="a")
    ask_quantity: str = msgspec.field(name="A")


class Trade(msgspec.Struct, gc=False):
    """`trade`: one execution. `buyer_is_maker` means that the seller was the aggressor."""

    symbol: str = msgspec.field(name="s")
    trade_id: Id = msgspec.field(name="t")
    price: str = msgspec.field(name="p")
    quantity: str = msgspec.field(name="q")
    trade_ms: Milliseconds = msgspec.field(name="T")
    buyer_is_maker: bool = msgspec.field(name="m")
