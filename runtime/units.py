"""Exact conversions between decimals and the integers that frames carry.

A price is an int in units of 1e-9 (`PRICE_EXPONENT`), cash likewise, a quantity an int in units of
10^-quantity_exponent of its instrument. Nothing here rounds: a value that is not a whole number of
units, ticks or lots is refused. The decimal context of the caller has no influence.
"""

from __future__ import annotations

import math
import operator
from decimal import Decimal, InvalidOperation
from typing import SupportsIndex, TypeAlias

from .errors import OffLot, OffTick, OrderError, OutOfRange

PRICE_EXPONENT = 9
CASH_EXPONENT = 9
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

# Above this a float no longer tells neighbouring whole numbers of steps apart.
_FLOAT_STEPS_MAX = 2**53

Value: TypeAlias = int | Decimal | str | float | SupportsIndex
"""A price or quantity as a user hands it in; an int is already in units."""


def to_units(value: Value, exponent: int, *, what: str = "value") -> int:
    """`value` as an int in units of 10^-exponent.

    An int is taken as being in units already. A Decimal or a str must be a whole number of units, a
    float must be the one nearest to a whole number of units. Raises `OffTick` where it is not,
    `OrderError` for what is no number, `OutOfRange` beyond 64 bits.
    """
    return to_steps(value, 1, exponent, what=what)


def to_steps(
    value: Value, step: int, exponent: int, *, what: str = "value", error: type[OffTick] = OffTick
) -> int:
    """`value` in units of 10^-exponent, checked to be a whole multiple of `step` (in units).

    A float is accepted only where the nearest multiple of `step`, turned into a float again, is that
    same float: 0.1 passes for a tick of 0.1, 0.1 + 0.2 does not.
    """
    if isinstance(value, float):
        return _float_steps(value, step, exponent, what, error)
    if isinstance(value, bool):
        raise OrderError(f"{what}: expected int, Decimal, str or float, found bool")
    number: Decimal | int
    units: int | None
    if isinstance(value, str | Decimal):
        number = parse_decimal(value, what=what)
        units = _decimal_units(number, exponent, what)
    else:
        try:
            number = units = operator.index(value)
        except TypeError:
            raise OrderError(
                f"{what}: expected int, Decimal, str or float, found {type(value).__name__}"
            ) from None
    if units is None or units % step:
        raise error(f"{what}: {number} is not a whole multiple of {_step_text(step, exponent, value)}")
    return _in_range(units, what, number)


def parse_decimal(value: str | Decimal | int, *, what: str = "value") -> Decimal:
    """A finite Decimal of the text, digit for digit; raises `OrderError` for anything else."""
    try:
        number = Decimal(value.strip() if isinstance(value, str) else value)
    except (InvalidOperation, ValueError):
        raise OrderError(f"{what}: {value!r} is not a decimal number") from None
    if not number.is_finite():
        raise OrderError(f"{what}: {value} is not a finite number")
    return number


def from_units(units: int, exponent: int) -> Decimal:
    """The exact Decimal of an int in units of 10^-exponent, without trailing zeros after the point."""
    return Decimal(format_units(units, exponent))


def format_units(units: int, exponent: int, places: int = 0) -> str:
    """Plain decimal text of an int in units of 10^-exponent, never in exponent notation.

    At least `places` digits after the point, more where the value needs them: what is printed is exact.
    """
    sign = "-" if units < 0 else ""
    whole, fraction = divmod(abs(int(units)), 10**exponent)
    digits = f"{fraction:0{exponent}d}".rstrip("0") if exponent else ""
    digits = digits.ljust(places, "0")
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"


def decimal_places(step: int, exponent: int) -> int:
    """How many digits after the point a multiple of `step` can have: 2 for 10_000_000 at exponent 9."""
    places = exponent
    while places and step % 10 == 0:
        step //= 10
        places -= 1
    return places


def parse_price(value: Value, tick: int) -> int:
    """A price in units of 1e-9, a whole number of ticks (`tick` in units); raises `OffTick`."""
    return to_steps(value, tick, PRICE_EXPONENT, what="price")


def parse_quantity(value: Value, lot: int, exponent: int) -> int:
    """A quantity in units of 10^-exponent, a whole number of lots (`lot` in units); raises `OffLot`."""
    return to_steps(value, lot, exponent, what="quantity", error=OffLot)


def format_cash(units: int, places: int = 2) -> str:
    """Cash in units of 1e-9 of the quote currency as decimal text, at least `places` digits."""
    return format_units(units, CASH_EXPONENT, places)


def _decimal_units(number: Decimal, exponent: int, what: str) -> int | None:
    """`number` times 10^exponent, None where that is not whole; on the digits, so without rounding."""
    sign, digits, shift = number.as_tuple()
    if not isinstance(shift, int):  # only NaN and infinities, which parse_decimal refuses
        raise OrderError(f"{what}: {number} is not a finite number")
    text = "".join(map(str, digits)).lstrip("0")
    significant = text.rstrip("0")
    if not significant:
        return 0
    shift += exponent + len(text) - len(significant)
    if shift < 0:
        return None
    # A 64-bit value has at most 19 digits: this bounds the power of ten, whatever the text says.
    if len(significant) + shift > 40:
        raise OutOfRange(f"{what}: {number} does not fit into 64 bits of 10^-{exponent}")
    units: int = int(significant) * 10**shift
    return -units if sign else units


def _float_steps(value: float, step: int, exponent: int, what: str, error: type[OffTick]) -> int:
    if not math.isfinite(value):
        raise OrderError(f"{what}: {value} is not a finite number")
    scale = 10**exponent
    numerator, denominator = value.as_integer_ratio()
    # Nearest whole number of steps in exact integer arithmetic; ties do not matter, both are off.
    steps = (2 * numerator * scale + denominator * step) // (2 * denominator * step)
    if abs(steps) > _FLOAT_STEPS_MAX:
        raise error(f"{what}: {value!r} is too large for a float to name one step; pass a Decimal or a str")
    units = steps * step
    if units / scale != value:  # int / int is correctly rounded: the float nearest to that decimal
        raise error(
            f"{what}: {value!r} is not a whole multiple of {format_units(step, exponent)}; "
            "pass a Decimal or a str, or round it first"
        )
    return _in_range(units, what, value)


def _in_range(units: int, what: str, number: object) -> int:
    if not INT64_MIN <= units <= INT64_MAX:
        raise OutOfRange(f"{what}: {number} does not fit into 64 bits")
    return units


def _step_text(step: int, exponent: int, value: object) -> str:
    text = format_units(step, exponent)
    # Whoever passes an int must know that it is read as units, not as whole coins.
    return text if isinstance(value, str | Decimal) else f"{text} (an int is in units of 10^-{exponent})"
