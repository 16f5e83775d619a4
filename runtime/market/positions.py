"""Positions at average cost, in integers only.

A quantity is an int of 10^-quantity_exponent, a price an int of 1e-9, so price times quantity is an int of
10^-(9 + quantity_exponent) of the quote currency. Two such sums say everything about a position:

    cash   what trading brought in (sells) less what it took (buys), an exact int
    cost   what the open quantity cost at the average price, signed like the quantity

    realised   = cash + cost                   fees not deducted
    unrealised = quantity * mark - cost        mark = mid of the last Depth with both sides
    average    = cost / quantity

Adding to a position adds price times quantity to `cost`; reducing it leaves the average price alone, so the
cost shrinks in proportion: cost * left / before. That is a fraction, and it is kept as one (numerator
and denominator, in lowest terms). Values are rounded, half to even, only where they leave this module as
ints of 1e-9. A denominator beyond 128 bits, after dozens of uneven partial closes without ever being flat,
is brought back to 2^64, half to even: an error below 2^-64 of 10^-(9 + quantity_exponent).

Trading through zero closes the whole position and opens the rest at the fill's price.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from math import gcd
from typing import Any, Final

from ..._native import layouts
from ...journal.format import Side
from ..errors import OutOfRange
from ..units import CASH_EXPONENT, INT64_MAX, INT64_MIN, format_cash, from_units
from .instruments import Instrument
from .rounding import round_half_even

__all__ = ["Position", "show_position"]

_BUY: Final = int(Side.BUY)
_DENOMINATOR_BITS_MAX: Final = 128
_DENOMINATOR_ROUNDED: Final = 1 << 64


class Position:
    """What one strategy holds of one instrument, from its fills, and what that is worth.

    Properties are ints in the units of a Position frame; `..._decimal` are exact Decimals of them.
    """

    __slots__ = (
        "_cash",
        "_cost",
        "_denominator",
        "_mark_twice",
        "_scale",
        "fees",
        "fills",
        "instrument",
        "quantity",
        "strategy_stream",
    )

    def __init__(self, strategy_stream: int, instrument: Instrument) -> None:
        self.strategy_stream = strategy_stream
        self.instrument = instrument
        self.quantity = 0
        self.fees = 0
        self.fills = 0
        self._cash = 0
        self._cost = 0
        self._denominator = 1
        self._mark_twice = 0
        self._scale = 10**instrument.quantity_exponent

    def on_fill(self, side: int, price: int, quantity: int, fee: int) -> None:
        """A trade of `quantity` > 0 at `price`, with a fee in 1e-9 (negative: a rebate)."""
        value = price * quantity
        if side == _BUY:
            signed = quantity
            self._cash -= value
        else:
            signed = -quantity
            value = -value
            self._cash -= value
        before = self.quantity
        after = before + signed
        self.quantity = after
        if before == 0 or (before > 0) == (signed > 0):
            self._cost += value * self._denominator
        elif after == 0:
            self._cost = 0
            self._denominator = 1
        elif (after > 0) == (before > 0):
            self._shrink(after, before)
        else:
            self._cost = price * after
            self._denominator = 1
        self.fees += fee
        self.fills += 1

    def mark(self, bid: int, ask: int) -> None:
        """The touch of the last Depth; with a side missing (0) the former mark stays."""
        if bid > 0 and ask > 0:
            self._mark_twice = bid + ask

    @property
    def average_price(self) -> int:
        """Mean price of the open quantity, 0 when flat."""
        if self.quantity == 0:
            return 0
        return round_half_even(self._cost, self._denominator * self.quantity)

    @property
    def realised(self) -> int:
        """Gain of what was closed, in 1e-9 of the quote currency, fees not deducted."""
        return round_half_even(self._cash * self._denominator + self._cost, self._denominator * self._scale)

    @property
    def unrealised(self) -> int:
        """Gain of the open quantity at the mark, in 1e-9 of the quote currency; 0 before the first mark."""
        if self._mark_twice == 0:
            return 0
        value_twice = self.quantity * self._mark_twice * self._denominator
        return round_half_even(value_twice - 2 * self._cost, 2 * self._denominator * self._scale)

    @property
    def mark_price(self) -> int:
        """Mid of the last Depth to the nearest 1e-9, 0 before the first."""
        return round_half_even(self._mark_twice, 2)

    @property
    def net(self) -> int:
        """Realised and unrealised gain less fees, in 1e-9 of the quote currency."""
        return self.realised + self.unrealised - self.fees

    @property
    def symbol(self) -> str:
        return self.instrument.symbol

    @property
    def quantity_decimal(self) -> Decimal:
        return self.instrument.quantity(self.quantity)

    @property
    def average_price_decimal(self) -> Decimal:
        return self.instrument.price(self.average_price)

    @property
    def mark_price_decimal(self) -> Decimal:
        return self.instrument.price(self.mark_price)

    @property
    def realised_decimal(self) -> Decimal:
        return from_units(self.realised, CASH_EXPONENT)

    @property
    def unrealised_decimal(self) -> Decimal:
        return from_units(self.unrealised, CASH_EXPONENT)

    @property
    def fees_decimal(self) -> Decimal:
        return from_units(self.fees, CASH_EXPONENT)

    @property
    def net_decimal(self) -> Decimal:
        return from_units(self.net, CASH_EXPONENT)

    def values(self) -> dict[str, int]:
        """The fields of a Position frame, whether they fit into it or not."""
        return {
            "instrument_id": self.instrument.id,
            "strategy_stream": self.strategy_stream,
            "quantity": self.quantity,
            "average_price": self.average_price,
            "realised": self.realised,
            "unrealised": self.unrealised,
            "fees": self.fees,
            "mark_price": self.mark_price,
            "fills": self.fills,
        }

    def frame_values(self) -> dict[str, int]:
        """The fields of a Position frame. Raises `OutOfRange` where one does not fit into its int64."""
        values = self.values()
        for field, value in values.items():
            if not INT64_MIN <= value <= INT64_MAX:
                raise OutOfRange(
                    f"position of {self.symbol}, strategy stream {self.strategy_stream}: {field} {value} "
                    "does not fit into 64 bits; use a smaller quantity_exponent for this instrument"
                )
        return values

    def frame_payload(self) -> bytes:
        """The payload of a Position frame; raises `OutOfRange` as `frame_values`."""
        pack, fields = _layout()
        values = self.frame_values()
        return pack.pack(*(values[field] for field in fields))

    def as_dict(self) -> dict[str, Any]:
        """The position for JSON: decimals as text."""
        return show_position(self.values(), self.instrument)

    def __repr__(self) -> str:
        shown = self.as_dict()
        return (
            f"<Position {shown['quantity']} {self.symbol} @ {shown['average_price']}, realised "
            f"{shown['realised']}, unrealised {shown['unrealised']}, fees {shown['fees']}>"
        )

    def _shrink(self, after: int, before: int) -> None:
        cost = self._cost * abs(after)
        denominator = self._denominator * abs(before)
        common = gcd(cost, denominator)
        cost //= common
        denominator //= common
        if denominator.bit_length() > _DENOMINATOR_BITS_MAX:
            cost = round_half_even(cost * _DENOMINATOR_ROUNDED, denominator)
            denominator = _DENOMINATOR_ROUNDED
        self._cost = cost
        self._denominator = denominator


def show_position(values: Mapping[str, int], instrument: Instrument) -> dict[str, Any]:
    """The fields of a Position frame as a person reads them: decimals as text, `net` after fees."""
    return {
        "strategy_stream": values["strategy_stream"],
        "symbol": instrument.symbol,
        "quantity": instrument.format_quantity(values["quantity"]),
        "average_price": instrument.format_price(values["average_price"]),
        "mark_price": instrument.format_price(values["mark_price"]),
        "realised": format_cash(values["realised"]),
        "unrealised": format_cash(values["unrealised"]),
        "fees": format_cash(values["fees"]),
        "net": format_cash(values["realised"] + values["unrealised"] - values["fees"]),
        "fills": values["fills"],
    }


@cache
def _layout() -> tuple[struct.Struct, tuple[str, ...]]:
    """How a Position payload is packed; without numpy, which would cost its process 10 MB."""
    codes = {"u1": "B", "u2": "H", "u4": "I", "u8": "Q", "i8": "q"}
    fields = [(name, offset, format_) for name, offset, format_ in layouts()["position"]["fields"]]
    pattern, end = "<", 0
    for name, offset, format_ in fields:
        size = int(format_[1:])
        pattern += "x" * (offset - end) + (f"{size}x" if name.startswith("reserved") else codes[format_])
        end = offset + size
    return struct.Struct(pattern), tuple(name for name, _, _ in fields if not name.startswith("reserved"))
