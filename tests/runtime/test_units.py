"""Exactness of the conversions between decimals and the integers in frames."""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tapewire.runtime.errors import OffLot, OffTick, OrderError, OutOfRange, TapewireError
from tapewire.runtime.instrument import Instrument
from tapewire.runtime.units import (
    INT64_MAX,
    INT64_MIN,
    decimal_places,
    format_cash,
    format_units,
    from_units,
    parse_decimal,
    to_steps,
    to_units,
)

int64 = st.integers(INT64_MIN, INT64_MAX)
exponents = st.integers(0, 18)

BTC = Instrument(id=1, symbol="BTCUSDT", tick=10_000_000, lot=10_000, taker_fee=1_000_000)


@given(int64, exponents)
def test_units_survive_decimal_and_text(units: int, exponent: int) -> None:
    number = from_units(units, exponent)
    assert Fraction(number) == Fraction(units, 10**exponent)
    assert to_units(number, exponent) == units
    assert to_units(format_units(units, exponent), exponent) == units
    assert to_units(units, exponent) == units


@given(int64, exponents)
def test_the_decimal_context_has_no_influence(units: int, exponent: int) -> None:
    with decimal.localcontext() as context:
        context.prec = 3
        context.traps[decimal.Inexact] = True
        number = from_units(units, exponent)
        assert to_units(number, exponent) == units
    assert Fraction(number) == Fraction(units, 10**exponent)


@given(st.decimals(allow_nan=False, allow_infinity=False), exponents)
@example(Decimal("1E+999999"), 9)
@example(Decimal("1E-999999"), 9)
@example(Decimal("0E+999999"), 9)
@example(Decimal("0." + "0" * 8 + "1" + "0" * 5000), 9)
def test_a_decimal_is_exact_or_refused(number: Decimal, exponent: int) -> None:
    try:
        units = to_units(number, exponent)
    except OutOfRange:
        assert abs(number) > 9
    except OffTick:
        assert number != number.to_integral_value() or number.as_tuple().exponent < 0  # type: ignore[operator]
    else:
        assert Fraction(units) == Fraction(number) * 10**exponent


@given(
    st.integers(-(10**12), 10**12),
    st.sampled_from([1, 5, 10, 25, 100, 10_000, 10_000_000]),
    st.integers(0, 9),
)
def test_the_float_of_a_whole_number_of_steps_is_accepted(steps: int, step: int, exponent: int) -> None:
    units = steps * step
    value = units / 10**exponent
    if steps != 0 and abs(steps) * step > INT64_MAX:
        return
    assert to_steps(value, step, exponent) == units


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([1, 7, 10_000_000]))
def test_a_float_is_its_nearest_step_or_refused(value: float, step: int) -> None:
    try:
        units = to_steps(value, step, 9)
    except OrderError:
        return
    assert units % step == 0
    assert units / 10**9 == value


@pytest.mark.parametrize("value", [0.1 + 0.2, 61685.995, 1e300, 2.0**60, 5e-324])
def test_floats_that_do_not_round_exactly(value: float) -> None:
    with pytest.raises(OffTick):
        BTC.parse_price(value)


@pytest.mark.parametrize(
    ("value", "units"),
    [
        (61685.99, 61_685_990_000_000),
        ("61685.99", 61_685_990_000_000),
        (" 61685.990 ", 61_685_990_000_000),
        (Decimal("61685.99"), 61_685_990_000_000),
        (61_685_990_000_000, 61_685_990_000_000),
        (np.int64(61_685_990_000_000), 61_685_990_000_000),
        (np.float64(61685.99), 61_685_990_000_000),
        ("1e2", 100_000_000_000),
        (-0.01, -10_000_000),
        (0, 0),
    ],
)
def test_prices_in(value: object, units: int) -> None:
    assert BTC.parse_price(value) == units  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["61685.995", Decimal("0.001"), 5, "1e-400"])
def test_prices_off_tick(value: object) -> None:
    with pytest.raises(OffTick, match=r"^price: .* is not a whole multiple of 0\.01"):
        BTC.parse_price(value)  # type: ignore[arg-type]


def test_an_int_off_tick_is_told_that_it_is_in_units() -> None:
    with pytest.raises(OffTick, match=r"an int is in units of 10\^-9"):
        BTC.parse_price(61685)


@pytest.mark.parametrize(
    "value", ["abc", "", "nan", "inf", float("nan"), float("inf"), True, None, b"1", [1], 1j]
)
def test_no_numbers(value: object) -> None:
    with pytest.raises(OrderError) as caught:
        BTC.parse_price(value)  # type: ignore[arg-type]
    assert not isinstance(caught.value, OffTick)


@pytest.mark.parametrize(
    "value", ["1e10", Decimal("9223372036.86"), 2**63 * 10_000_000, -(2**64) * 10_000_000]
)
def test_beyond_64_bits(value: object) -> None:
    with pytest.raises(OutOfRange):
        BTC.parse_price(value)  # type: ignore[arg-type]


def test_quantities_are_in_lots() -> None:
    assert BTC.parse_quantity("1.00870") == 1_008_700_000
    assert BTC.parse_quantity(0.00001) == 10_000
    with pytest.raises(OffLot, match=r"^quantity: 0\.000001 is not a whole multiple of 0\.00001"):
        BTC.parse_quantity("0.000001")
    with pytest.raises(OffTick):  # one except clause is enough
        BTC.parse_quantity(0.000001)


def test_another_quantity_exponent() -> None:
    meme = Instrument(id=1, symbol="MEME", tick=1, lot=1, quantity_exponent=0)
    assert meme.parse_quantity("9000000000000000000") == 9 * 10**18
    assert meme.format_quantity(9 * 10**18) == "9000000000000000000"


def test_out() -> None:
    assert BTC.price(61_685_990_000_000) == Decimal("61685.99")
    assert BTC.format_price(61_686_000_000_000) == "61686.00"
    assert BTC.format_quantity(2_293_270_000) == "2.29327"
    assert BTC.format_price(1) == "0.000000001"  # never rounded
    assert BTC.price_places == 2
    assert BTC.quantity_places == 5
    assert format_cash(-1_500_000_000) == "-1.50"
    assert format_units(-5, 9) == "-0.000000005"
    assert format_units(7, 0) == "7"
    assert decimal_places(25, 2) == 2


@given(st.text())
def test_any_text_is_a_decimal_or_an_order_error(text: str) -> None:
    try:
        number = parse_decimal(text)
    except TapewireError:
        return
    assert number.is_finite()


def test_instruments_survive_the_manifest() -> None:
    fields = BTC.to_dict()
    assert fields["tick"] == "0.01"
    assert fields["taker_fee"] == "0.001"
    assert Instrument.from_dict(fields) == BTC
