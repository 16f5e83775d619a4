"""Recordings of Binance spot market data, decoded to events.

A line is `<local receive time, ns> <JSON>`: a combined-stream message of bookTicker, trade or depthUpdate,
or a REST depth snapshot (see `binance_messages`). The book follows the rule in `diff_book`. Nothing is
guessed and nothing is lost from sight: each line is published, skipped with a reason, or an `InputError`
that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from ..._native import parse_decimal
from ..errors import InputError
from .accounting import Accounting, Touch
from .binance_messages import BookTicker, DepthUpdate, Envelope, Snapshot, Trade
from .diff_book import BUY, SELL, DiffBook, ReceivedUpdate, Verdict
from .market_events import BookTickerEvent, DepthEvent, Event, GapEvent, TradeEvent
from .recording_file import RecordingFile

__all__ = [
    "BinanceRecording",
    "RecordedInstrument",
    "check_recording",
]

_RECEIVE_TIME_MAX = 2**63 - 1
_NS_PER_MS = 1_000_000


class RecordedInstrument(Protocol):
    """What the decoder needs to know of an instrument."""

    @property
    def id(self) -> int:
        """The id its frames carry."""

    @property
    def symbol(self) -> str:
        """As Binance spells it, in any case: BTCUSDT."""

    @property
    def quantity_exponent(self) -> int:
        """Quantities are in units of 10**-quantity_exponent."""


_Handler: TypeAlias = Callable[[DiffBook, msgspec.Raw], Event | None]
_Route: TypeAlias = tuple[_Handler, DiffBook] | str  # str: the reason why its lines are skipped


class BinanceRecording:
    """One pass over a recording: iterate it for the events of `instruments`, in line order.

    Prices are in 1e-9, quantities in 10**-quantity_exponent, times in ns since 1970. When a snapshot comes,
    the updates that waited for it are events too, with the snapshot's `receive_time`: nobody could know the
    book earlier. `accounting` is current at each event and final when the iteration ends.

    Raises `InputError`: at once for a missing or unreadable file; while iterating, naming the line, for what
    is not `<ns> <JSON>` of the documented types, a receive time before the previous line's, a price or
    quantity that is no number of the instrument, truncated or damaged gzip data; at the end when no line was
    about any of `instruments`.
    """

    def __init__(self, path: str | Path, instruments: Sequence[RecordedInstrument]) -> None:
        self._file = RecordingFile(path)
        self.accounting = Accounting(path=str(path))
        self._books = {
            item.symbol.upper(): DiffBook(item.symbol.upper(), item.id, item.quantity_exponent)
            for item in instruments
        }
        self._routes: dict[str, _Route] = {}
        self._others: dict[str, None] = {}  # symbols that no instrument asked for, in order of appearance
        self._receive_time = 0
        self._envelope = msgspec.json.Decoder(Envelope).decode
        self._depth = msgspec.json.Decoder(DepthUpdate).decode
        self._snapshot = msgspec.json.Decoder(Snapshot).decode
        self._ticker = msgspec.json.Decoder(BookTicker).decode
        self._trade = msgspec.json.Decoder(Trade).decode

    def __enter__(self) -> BinanceRecording:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def settle(self) -> Accounting:
        """The accounting with the books' part in it; done at the end of the input, else to be asked for."""
        accounting = self.accounting
        accounting.overlaps = sum(book.overlaps for book in self._books.values())
        accounting.last_touch = {}
        for symbol, diff_book in self._books.items():
            if diff_book.valid:
                bid, ask = diff_book.book.best()
                accounting.last_touch[symbol] = Touch(*(bid or (0, 0)), *(ask or (0, 0)))
        return accounting

    def __iter__(self) -> Iterator[Event]:
        accounting, routes, decode = self.accounting, self._routes, self._envelope
        for line in self._file:
            accounting.lines += 1
            try:
                body = self._take_receive_time(line)
                envelope = decode(body)
                if stream := envelope.stream:
                    route = routes.get(stream) or self._add_route(stream)
                    if isinstance(route, str):
                        accounting.skip(route)
                    elif (event := route[0](route[1], envelope.data)) is not None:
                        yield event
                elif envelope.lastUpdateId >= 0:
                    yield from self._on_snapshot(self._snapshot(body))
                else:
                    accounting.skip("neither a stream message nor a snapshot")
            except msgspec.ValidationError as error:
                raise self._error(f"not a message of the documented type ({error})") from None
            except msgspec.DecodeError as error:
                raise self._error(f"malformed JSON ({error})") from None
            except UnicodeError:
                raise self._error("malformed JSON (not UTF-8)") from None
        self._finish()

    def _error(self, problem: str, *, line: int | None = None, hint: str = "") -> InputError:
        return InputError(problem, path=self._file.path, line=line or self._file.line, hint=hint)

    def _take_receive_time(self, line: bytes) -> bytes:
        """The JSON of a line, after checking the time before it."""
        digits, _, body = line.partition(b" ")
        if not digits.isdigit() or len(digits) > 19 or (now := int(digits)) > _RECEIVE_TIME_MAX:
            raise self._error("does not start with a receive time in ns", hint="expected `<ns> <JSON>`")
        if now < self._receive_time:
            early = self._receive_time - now
            raise self._error(
                f"out-of-order recording: received at {now}, {early} ns before the previous line",
                hint="sort its lines by their first column",
            )
        if not self._receive_time:
            self.accounting.first_receive_time = now
        self._receive_time = self.accounting.last_receive_time = now
        return body

    def _add_route(self, stream: str) -> _Route:
        symbol, _, kind = stream.partition("@")
        symbol = symbol.upper()
        book = self._books.get(symbol)
        route: _Route
        if book is None:
            self._others[symbol] = None
            route = f"symbol {_shown(symbol)} not among the instruments"
        elif kind == "bookTicker":
            route = self._on_ticker, book
        elif kind == "trade":
            route = self._on_trade, book
        elif kind == "depth" or kind.startswith("depth@"):  # depth5, depth10, depth20 are no diffs
            route = self._on_depth, book
        else:
            route = f"stream kind {_shown(kind)} not used"
        self._routes[stream] = route
        return route

    # ---- one handler per kind of message ---------------------------------------------------------

    def _on_ticker(self, book: DiffBook, data: msgspec.Raw) -> Event:
        message = self._ticker(data)
        exponent = book.quantity_exponent
        self._check_symbol(book, message.symbol)
        number = self._number
        event = BookTickerEvent(
            self._file.line,
            book.instrument_id,
            self._receive_time,
            message.update_id,
            number(message.bid, 9),
            number(message.bid_quantity, exponent),
            number(message.ask, 9),
            number(message.ask_quantity, exponent),
        )
        self.accounting.publish(BookTickerEvent.kind)
        return event

    def _on_trade(self, book: DiffBook, data: msgspec.Raw) -> Event:
        message = self._trade(data)
        self._check_symbol(book, message.symbol)
        price = self._number(message.price, 9)
        quantity = self._number(message.quantity, book.quantity_exponent)
        self.accounting.publish(TradeEvent.kind)
        return TradeEvent(
            self._file.line,
            book.instrument_id,
            message.trade_ms * _NS_PER_MS,
            self._receive_time,
            message.trade_id,
            SELL if message.buyer_is_maker else BUY,
            price,
            quantity,
        )

    def _on_depth(self, book: DiffBook, data: msgspec.Raw) -> Event | None:
        message = self._depth(data)
        self._check_symbol(book, message.symbol)
        if message.last_id < message.first_id:
            raise self._error(f"update ids run backwards (U {message.first_id}, u {message.last_id})")
        received = ReceivedUpdate(self._file.line, self._receive_time, message)
        try:
            verdict = book.on_update(received)
        except ValueError as error:
            raise self._error(str(error)) from None
        return self._account_update(book, received, verdict, waited=False)

    def _on_snapshot(self, snapshot: Snapshot) -> Iterator[Event]:
        book = self._book_of_snapshot()
        if book is None:
            self.accounting.skip("snapshot names no symbol and several may be meant")
            return
        at = self._file.line
        steps = book.on_snapshot(snapshot, at)
        while True:
            try:
                step = next(steps, None)
            except ValueError as error:
                raise self._error(str(error), line=book.line) from None
            if step is None:
                return
            verdict, received = step
            if received is not None:
                event = self._account_update(book, received, verdict, waited=True)
                if event is not None:
                    yield event
            elif verdict is Verdict.APPLIED:
                yield self._depth_event(book, at, 0, "depth_snapshot")
            else:
                self.accounting.skip(verdict.value)

    def _account_update(
        self, book: DiffBook, received: ReceivedUpdate, verdict: Verdict, *, waited: bool
    ) -> Event | None:
        """Put an update's line into its bucket (out of `buffered` if it waited); its event, if any."""
        accounting = self.accounting
        accounting.buffered -= waited
        if verdict is Verdict.APPLIED:
            exchange_time = received.update.event_ms * _NS_PER_MS
            return self._depth_event(book, received.line, exchange_time, "depth_update")
        if verdict is Verdict.BUFFERED:
            accounting.buffered += 1
            return None
        if verdict is Verdict.GAP:
            accounting.buffered += 1
            accounting.gaps += 1
            return GapEvent(
                received.line, book.instrument_id, self._receive_time, book.expected, book.found, book.book
            )
        accounting.skip(verdict.value)  # DISCARDED: this one waits in the place of the oldest
        return None

    def _depth_event(self, book: DiffBook, line: int, exchange_time: int, kind: str) -> DepthEvent:
        self.accounting.publish(kind)
        self.accounting.crossed += book.book.crossed
        return DepthEvent(
            line, book.instrument_id, exchange_time, self._receive_time, book.last_update_id, book.book, kind
        )

    def _number(self, text: str, exponent: int) -> int:
        try:
            value = parse_decimal(text, exponent)
        except ValueError as error:
            raise self._error(str(error)) from None
        if value < 0:
            raise self._error(f'number "{text}": is negative')
        return value

    def _check_symbol(self, book: DiffBook, symbol: str) -> None:
        if symbol != book.symbol:
            raise self._error(f"data of symbol {_shown(symbol)} in a stream of {book.symbol}")

    def _book_of_snapshot(self) -> DiffBook | None:
        """The only instrument it can be: the one configured, or the one whose updates were seen."""
        books = list(self._books.values())
        if len(books) > 1 or self._others:
            books = [book for book in books if book.seen]
        return books[0] if len(books) == 1 else None

    def _finish(self) -> None:
        accounting = self.accounting
        accounting.skip("no snapshot followed", accounting.buffered)
        accounting.buffered = 0
        accounting.end_of_input = True
        self.settle()
        if not accounting.published:
            raise InputError(
                f"no line is about {', '.join(self._books) or 'any instrument'}",
                path=self._file.path,
                hint=(
                    f"its symbols are {', '.join(map(_shown, list(self._others)[:10]))}"
                    if self._others
                    else "it has no line that can be played"
                ),
            )


def check_recording(path: str | Path, instruments: Sequence[RecordedInstrument]) -> Accounting:
    """Read a whole recording without publishing anything, so that bad input is refused before a run is made.

    Returns its accounting, raises what `BinanceRecording` raises. About 0.2 s per 40,000 lines.
    """
    with BinanceRecording(path, instruments) as recording:
        for _ in recording:
            pass
        return recording.accounting


def _shown(name: str) -> str:
    """A name out of the file, fit for one line of a message."""
    name = name if len(name) <= 24 else name[:24] + "..."
    return name if name.isprintable() and name else ascii(name)
