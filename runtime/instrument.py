"""An instrument as every part of the runtime sees it: ticks, lots and fees as integers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from .units import (
    PRICE_EXPONENT,
    Value,
    decimal_places,
    format_units,
    from_units,
    parse_decimal,
    parse_price,
    parse_quantity,
    to_units,
)

FEE_EXPONENT = 9
FEE_ONE = 10**FEE_EXPONENT


class Instrument(msgspec.Struct, frozen=True, kw_only=True):
    """One tradable symbol. Integers are in units: `tick` in 1e-9, `lot` in 10^-quantity_exponent,
    fees in 1e-9 fractions of the notional (negative is a rebate)."""

    id: int
    symbol: str
    tick: int
    lot: int
    quantity_exponent: int = 9
    maker_fee: int = 0
    taker_fee: int = 0

    @property
    def price_places(self) -> int:
        """Digits after the point that a price of this instrument is written with."""
        return decimal_places(self.tick, PRICE_EXPONENT)

    @property
    def quantity_places(self) -> int:
        """Digits after the point that a quantity of this instrument is written with."""
        return decimal_places(self.lot, self.quantity_exponent)

    def parse_price(self, value: Value) -> int:
        """A price in 1e-9 units; raises `OffTick` unless it is a whole number of ticks."""
        return parse_price(value, self.tick)

    def parse_quantity(self, value: Value) -> int:
        """A quantity in 10^-quantity_exponent units; raises `OffLot` unless it is whole lots."""
        return parse_quantity(value, self.lot, self.quantity_exponent)

    def price(self, units: int) -> Decimal:
        """The exact decimal price of 1e-9 units."""
        return from_units(units, PRICE_EXPONENT)

    def quantity(self, units: int) -> Decimal:
        """The exact decimal quantity of 10^-quantity_exponent units."""
        return from_units(units, self.quantity_exponent)

    def format_price(self, units: int) -> str:
        """A price as text, with the digits of its tick: `61685.90`."""
        return format_units(units, PRICE_EXPONENT, self.price_places)

    def format_quantity(self, units: int) -> str:
        """A quantity as text, with the digits of its lot: `1.00870`."""
        return format_units(units, self.quantity_exponent, self.quantity_places)

    def to_dict(self) -> dict[str, Any]:
        """As the manifest keeps it: decimals as text."""
        return {
            "id": self.id,
            "symbol": self.symbol,
            "tick": format_units(self.tick, PRICE_EXPONENT),
            "lot": format_units(self.lot, self.quantity_exponent),
            "quantity_exponent": self.quantity_exponent,
            "maker_fee": format_units(self.maker_fee, FEE_EXPONENT),
            "taker_fee": format_units(self.taker_fee, FEE_EXPONENT),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any], *, id: int | None = None) -> Instrument:
        """The inverse of `to_dict`; raises `OrderError` where a decimal does not fit its exponent."""
        exponent = int(fields.get("quantity_exponent", 9))

        def units(key: str, default: str, digits: int) -> int:
            return to_units(parse_decimal(str(fields.get(key, default)), what=key), digits, what=key)

        return cls(
            id=int(fields["id"]) if id is None else id,
            symbol=str(fields["symbol"]),
            tick=units("tick", "0.01", PRICE_EXPONENT),
            lot=units("lot", "0.001", exponent),
            quantity_exponent=exponent,
            maker_fee=units("maker_fee", "0", FEE_EXPONENT),
            taker_fee=units("taker_fee", "0", FEE_EXPONENT),
        )
