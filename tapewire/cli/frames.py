"""Frames as a person reads them: UTC, symbols, decimals, names instead of numbers."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeAlias

from ..journal.format import ENUM_FIELDS, FrameType, LifecycleKind, type_name
from ..journal.reader import Frame, decode
from ..runtime.instrument import Instrument
from ..runtime.manifest import Manifest
from ..runtime.units import CASH_EXPONENT, PRICE_EXPONENT, format_cash, format_units
from .common import utc_text

Fields: TypeAlias = dict[str, Any]

_PRICES = frozenset({"price", "average_price", "mark_price", "bid_price", "ask_price"})
_QUANTITIES = frozenset({"quantity", "filled", "leaves", "bid_quantity", "ask_quantity"})
_CASH = frozenset({"fee", "fees", "realised", "unrealised"})
_REALTIME = frozenset({"exchange_time", "receive_time"})

# An order id is the stream id of its strategy and a count.
_ORDER_COUNT_BITS = 48
_TIME_WIDTH = 30
_TYPE_WIDTH = 12


class FrameText:
    """Turns the frames of one run into rows and into objects for JSON."""

    def __init__(self, manifest: Manifest, stream_names: dict[int, str]) -> None:
        self._streams = stream_names
        self._offset_ns = manifest.clock.offset_ns
        self._instruments = {instrument.id: instrument for instrument in manifest.instrument_list()}
        self._stream_width = max((len(name) for name in stream_names.values()), default=6)
        self._cause_width = self._stream_width + 9

    def headings(self) -> str:
        """The line over the rows."""
        return self._join("time (UTC)", "stream", "seq", "type", "cause", "fields")

    def row(self, frame: Frame) -> str:
        """One line: time, stream, seq, type, cause, fields."""
        cause = "-" if frame.cause is None else self._reference(*frame.cause)
        fields = self.fields(frame)
        line = _LINES.get(frame.type, _user_line)(fields)
        return self._join(
            utc_text(frame.gen_time + self._offset_ns),
            self._stream(frame.stream_id),
            str(frame.seq),
            type_name(frame.type),
            cause,
            line,
        )

    def object(self, frame: Frame) -> Fields:
        """Everything of a frame for JSON; prices, quantities and cash are decimal text."""
        return {
            "time": utc_text(frame.gen_time + self._offset_ns),
            "gen_time": frame.gen_time,
            "epoch": frame.epoch,
            "stream": self._stream(frame.stream_id),
            "seq": frame.seq,
            "type": type_name(frame.type),
            "cause": self._pair(frame.cause),
            "root": self._pair(frame.root),
            "root_type": None if frame.root is None else type_name(frame.root_type),
            "fields": self.fields(frame),
        }

    def fields(self, frame: Frame) -> Fields:
        """The payload with symbols, names and decimal text in place of ids and integers."""
        values = decode(frame)
        instrument = self._instruments.get(values.get("instrument_id", 0))
        result: Fields = {}
        for name, value in values.items():
            if name == "instrument_id":
                result["symbol"] = f"instrument {value}" if instrument is None else instrument.symbol
            elif name == "order_id":
                count = value & ((1 << _ORDER_COUNT_BITS) - 1)
                result["order_id"] = value
                result["order"] = f"{self._stream(value >> _ORDER_COUNT_BITS)}#{count}"
            elif name == "strategy_stream":
                result["strategy"] = self._stream(value)
            elif name == "book_stream":
                result["book"] = self._reference(value, values["book_seq"]) if value else None
            elif name == "entries":
                result["consumed"] = [
                    {
                        "stream": self._stream(entry["stream_id"]),
                        "up_to_seq": entry["up_to_seq"],
                        "frames": entry["frames"],
                    }
                    for entry in value
                ]
            elif name in ("bids", "asks"):
                result[name] = [[_price(p, instrument), _quantity(q, instrument)] for p, q in value]
            elif name != "book_seq":
                result[name] = _value(frame.type, name, value, instrument)
        return result

    def _join(self, time: str, stream: str, seq: str, kind: str, cause: str, fields: str) -> str:
        left = f"{time:<{_TIME_WIDTH}} {stream:<{self._stream_width}} {seq:>9}"
        return f"{left} {kind:<{_TYPE_WIDTH}} {cause:<{self._cause_width}} {fields}".rstrip()

    def _stream(self, number: int) -> str:
        return self._streams.get(number, f"stream {number}")

    def _reference(self, stream: int, seq: int) -> str:
        return f"{self._stream(stream)}:{seq}"

    def _pair(self, reference: tuple[int, int] | None) -> Fields | None:
        return None if reference is None else {"stream": self._stream(reference[0]), "seq": reference[1]}


def _value(kind: int, name: str, value: Any, instrument: Instrument | None) -> Any:
    if name in _PRICES:
        return _price(value, instrument)
    if name in _QUANTITIES:
        return _quantity(value, instrument)
    if name in _CASH:
        return format_cash(value)
    if name in _REALTIME:
        return utc_text(value) if value else None
    if name == "kind" and kind == FrameType.LIFECYCLE:
        return _name(LifecycleKind, value)
    if name in ENUM_FIELDS:
        return _name(ENUM_FIELDS[name], value)
    return value.hex() if isinstance(value, bytes) else value


def _price(value: int, instrument: Instrument | None) -> str:
    return format_units(value, PRICE_EXPONENT) if instrument is None else instrument.format_price(value)


def _quantity(value: int, instrument: Instrument | None) -> str:
    return format_units(value, CASH_EXPONENT) if instrument is None else instrument.format_quantity(value)


def _name(kind: type[IntEnum], value: int) -> str:
    try:
        return kind(value).name.lower()
    except ValueError:
        return "none" if value == 0 else str(value)


# ---- one line per type ------------------------------------------------------------------------------


def _depth_line(f: Fields) -> str:
    def best(levels: list[list[str]]) -> str:
        return " x ".join(levels[0]) if levels else "-"

    levels = f"{len(f['bids'])}+{len(f['asks'])}"
    return f"{f['symbol']} {best(f['bids'])} | {best(f['asks'])} levels {levels} update {f['update_id']}"


def _ticker_line(f: Fields) -> str:
    bid = f"{f['bid_price']} x {f['bid_quantity']}"
    return f"{f['symbol']} {bid} | {f['ask_price']} x {f['ask_quantity']} update {f['update_id']}"


def _trade_line(f: Fields) -> str:
    return f"{f['symbol']} {f['aggressor']} {f['quantity']} @ {f['price']} trade {f['trade_id']}"


def _order_line(f: Fields) -> str:
    head = f"{f['order']} {f['action']}"
    if f["action"] == "cancel":
        return f"{head} {f['symbol']} request {f['request_id']}"
    price = "market" if f["order_type"] == "market" else f"@ {f['price']}"
    order = f"{f['side']} {f['quantity']} {f['symbol']} {price} {f['time_in_force']}"
    return f"{head} {order} request {f['request_id']}"


def _report_line(f: Fields) -> str:
    reason = "" if f["reason"] == "none" else f" ({f['reason']})"
    order = f"{f['side']} {f['quantity']} {f['symbol']} @ {f['price']}"
    book = f" book {f['book']}" if f["book"] else ""
    return f"{f['order']} {f['status']}{reason} {order} filled {f['filled']} leaves {f['leaves']}{book}"


def _fill_line(f: Fields) -> str:
    trade = f"{f['side']} {f['quantity']} {f['symbol']} @ {f['price']} {f['liquidity']}"
    book = f" book {f['book']}" if f["book"] else ""
    return f"{f['order']} {trade} leaves {f['leaves']} fee {f['fee']} exec {f['exec_id']}{book}"


def _position_line(f: Fields) -> str:
    held = f"{f['quantity']} @ {f['average_price']} mark {f['mark_price']}"
    money = f"realised {f['realised']} unrealised {f['unrealised']} fees {f['fees']}"
    return f"{f['strategy']} {f['symbol']} {held} {money} fills {f['fills']}"


def _consumed_line(f: Fields) -> str:
    return ", ".join(f"{e['stream']} to {e['up_to_seq']} ({e['frames']})" for e in f["consumed"])


def _gap_line(f: Fields) -> str:
    return f"{f['symbol']} expected update {f['expected']}, found {f['found']}"


def _user_line(f: Fields) -> str:
    return str(f.get("payload", f))


_LINES: dict[int, Callable[[Fields], str]] = {
    FrameType.DEPTH: _depth_line,
    FrameType.BOOK_TICKER: _ticker_line,
    FrameType.TRADE: _trade_line,
    FrameType.ORDER_INPUT: _order_line,
    FrameType.ORDER_REPORT: _report_line,
    FrameType.FILL: _fill_line,
    FrameType.TIMER: lambda f: f"timer {f['timer_id']} due {f['due_time']} fired {f['fire_time']}",
    FrameType.LIFECYCLE: lambda f: str(f["kind"]),
    FrameType.CONSUMED: _consumed_line,
    FrameType.POSITION: _position_line,
    FrameType.TEXT: lambda f: str(f["text"]),
    FrameType.FEED_GAP: _gap_line,
}
