"""Small Binance recordings of the documented format, made by the tests that read them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

Levels = Sequence[tuple[str, str]]
START_NS = 1_723_161_253_000_000_000


class RecordingMaker:
    """Collects lines, one per millisecond of receive time."""

    def __init__(self, symbol: str = "BTCUSDT") -> None:
        self.symbol = symbol
        self.lines: list[bytes] = []
        self.now = START_NS

    def raw(self, text: str | bytes) -> RecordingMaker:
        """A line as it is."""
        self.lines.append(text.encode() if isinstance(text, str) else text)
        return self

    def json(self, message: Any) -> RecordingMaker:
        """A line of the current time and this message."""
        self.now += 1_000_000
        return self.raw(f"{self.now} {json.dumps(message, separators=(',', ':'))}")

    def stream(self, kind: str, data: dict[str, Any], symbol: str | None = None) -> RecordingMaker:
        """A combined-stream message."""
        return self.json({"stream": f"{(symbol or self.symbol).lower()}@{kind}", "data": data})

    def update(self, first: int, last: int, bids: Levels = (), asks: Levels = ()) -> RecordingMaker:
        """A depthUpdate with ids `first` .. `last`."""
        data = {
            "e": "depthUpdate",
            "E": self.now // 1_000_000,
            "s": self.symbol,
            "U": first,
            "u": last,
            "b": [list(level) for level in bids],
            "a": [list(level) for level in asks],
        }
        return self.stream("depth@100ms", data)

    def snapshot(self, last: int, bids: Levels = (), asks: Levels = ()) -> RecordingMaker:
        """A REST depth snapshot."""
        message = {
            "lastUpdateId": last,
            "bids": [list(level) for level in bids],
            "asks": [list(level) for level in asks],
        }
        return self.json(message)

    def ticker(self, update_id: int, bid: str, bid_qty: str, ask: str, ask_qty: str) -> RecordingMaker:
        """A bookTicker."""
        data = {"u": update_id, "s": self.symbol, "b": bid, "B": bid_qty, "a": ask, "A": ask_qty}
        return self.stream("bookTicker", data)

    def trade(self, trade_id: int, price: str, quantity: str, *, maker: bool = False) -> RecordingMaker:
        """A trade; with `maker` the buyer was the maker."""
        ms = self.now // 1_000_000
        data = {
            "e": "trade",
            "E": ms + 1,
            "s": self.symbol,
            "t": trade_id,
            "p": price,
            "q": quantity,
            "T": ms,
            "m": maker,
            "M": True,
        }
        return self.stream("trade", data)

    @property
    def content(self) -> bytes:
        """All lines, each with its newline."""
        return b"".join(line + b"\n" for line in self.lines)

    def write(self, path: Path) -> Path:
        """To a file, gzipped when its name says so."""
        path.write_bytes(gzip.compress(self.content) if path.suffix == ".gz" else self.content)
        return path


@pytest.fixture
def recording() -> RecordingMaker:
    """An empty recording of BTCUSDT to fill."""
    return RecordingMaker()
