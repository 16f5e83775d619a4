"""Where every line of a recording went."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

__all__ = ["Accounting", "PriceFormat", "Touch", "accounting_lines"]

_PUBLISHED = {
    "book_ticker": "book tickers",
    "trade": "trades",
    "depth_update": "diffs applied",
    "depth_snapshot": "snapshots",
}


class PriceFormat(Protocol):
    """What an instrument knows about writing its prices and quantities."""

    @property
    def symbol(self) -> str:
        """Its name."""

    def format_price(self, units: int, /) -> str:
        """A price in 1e-9 as text."""

    def format_quantity(self, units: int, /) -> str:
        """A quantity in 10**-quantity_exponent as text."""


class Touch(msgspec.Struct, frozen=True):
    """Best bid and ask; prices in 1e-9, quantities in 10**-quantity_exponent; 0 for an empty side."""

    bid_price: int
    bid_quantity: int
    ask_price: int
    ask_quantity: int

    def describe(self, instrument: PriceFormat) -> str:
        """`61685.99 × 1.00870 / 61686.00 × 2.29327`, with the decimals of the instrument."""
        bid = f"{instrument.format_price(self.bid_price)} × {instrument.format_quantity(self.bid_quantity)}"
        ask = f"{instrument.format_price(self.ask_price)} × {instrument.format_quantity(self.ask_quantity)}"
        return f"{bid} / {ask}"


class Accounting(msgspec.Struct):
    """Counts of one pass over a recording.

    Every line read is in exactly one of `published` (by type), `skipped` (by reason) and `buffered`
    (order book updates that wait for a snapshot; none once the input has ended): `accounted` == `lines`.
    `gaps`, `crossed` and `overlaps` describe updates that are in one of these as well. Times are the
    source's, in ns since 1970, 0 before the first line.
    """

    path: str = ""
    lines: int = 0
    published: dict[str, int] = msgspec.field(default_factory=dict)
    skipped: dict[str, int] = msgspec.field(default_factory=dict)
    buffered: int = 0
    gaps: int = 0
    crossed: int = 0
    overlaps: int = 0
    first_receive_time: int = 0
    last_receive_time: int = 0
    end_of_input: bool = False
    error: str = ""  # why the pass ended early; the line that it names is in no bucket
    last_touch: dict[str, Touch] = msgspec.field(default_factory=dict)  # by symbol, of the books now valid

    @property
    def accounted(self) -> int:
        """Lines that are in a bucket."""
        return sum(self.published.values()) + sum(self.skipped.values()) + self.buffered

    @property
    def complete(self) -> bool:
        """The input was read to its end and every line is accounted for."""
        return self.end_of_input and self.accounted == self.lines

    def publish(self, kind: str) -> None:
        """Count a line as published."""
        self.published[kind] = self.published.get(kind, 0) + 1

    def skip(self, reason: str, lines: int = 1) -> None:
        """Count lines as skipped."""
        if lines:
            self.skipped[reason] = self.skipped.get(reason, 0) + lines

    def withdraw(self, kind: str) -> None:
        """A line counted as published was not, because the run was stopped before it was due."""
        if kind in self.published:
            self.published[kind] -= 1
            self.skip("stopped before it was due")


def accounting_lines(accounting: Accounting, instruments: Iterable[PriceFormat]) -> list[str]:
    """The accounting as a person reads it: where the lines went, then the last touch of each book."""
    of_all = "" if accounting.accounted == accounting.lines else f" of {accounting.lines:,}"
    went = [f"{accounting.published.get(kind, 0):,} {words}" for kind, words in _PUBLISHED.items()]
    went += [f"{count:,} skipped: {reason}" for reason, count in sorted(accounting.skipped.items())]
    if accounting.buffered:
        went.append(f"{accounting.buffered:,} waiting for a snapshot")
    lines = [
        f"{accounting.accounted:,}{of_all} lines accounted for: {', '.join(went)}; "
        f"{accounting.gaps:,} gaps, {accounting.crossed:,} crossed"
    ]
    by_symbol = {instrument.symbol.upper(): instrument for instrument in instruments}
    for symbol, touch in accounting.last_touch.items():
        if symbol in by_symbol:
            lines.append(f"last touch of {symbol}: {touch.describe(by_symbol[symbol])}")
    if accounting.error:
        lines.append(f"ended by an error: {accounting.error}")
    elif not accounting.end_of_input:
        lines.append("stopped before the end of the recording")
    return lines
