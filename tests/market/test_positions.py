"""Positions against a plain reference in exact fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapewire.runtime.errors import OutOfRange
from tapewire.runtime.market.instruments import Instrument
from tapewire.runtime.market.positions import Position
from tapewire.runtime.market.rounding import round_half_even

BUY, SELL = 1, 2
UNIT = 10**9


def instrument(exponent: int = 9) -> Instrument:
    return Instrument(id=1, symbol="BTCUSDT", tick=10_000_000, lot=1, quantity_exponent=exponent)


class Reference:
    """Average cost as a textbook has it, in units of price and quantity, without any rounding."""

    def __init__(self) -> None:
        self.quantity = Fraction(0)
        self.average = Fraction(0)
        self.realised = Fraction(0)
        self.fees = Fraction(0)

    def fill(self, side: int, price: int, quantity: int, fee: int) -> None:
        signed = Fraction(quantity if side == BUY else -quantity)
        self.fees += fee
        if self.quantity * signed >= 0:
            total = self.quantity + signed
            self.average = (self.average * self.quantity + price * signed) / total
            self.quantity = total
            return
        closed = min(abs(signed), abs(self.quantity))
        direction = 1 if self.quantity > 0 else -1
        self.realised += closed * (price - self.average) * direction
        self.quantity += signed
        if self.quantity == 0:
            self.average = Fraction(0)
        elif (self.quantity > 0) == (signed > 0):
            self.average = Fraction(price)


FILLS = st.lists(
    st.tuples(
        st.sampled_from([BUY, SELL]),
        st.integers(1, 10**15),
        st.integers(1, 10**13),
        st.integers(-(10**9), 10**12),
    ),
    max_size=25,
)


@given(
    fills=FILLS, bid=st.integers(1, 10**15), spread=st.integers(1, 10**9), exponent=st.sampled_from([0, 3, 9])
)
@settings(max_examples=300, deadline=None)
def test_equals_exact_average_cost(
    fills: list[tuple[int, int, int, int]], bid: int, spread: int, exponent: int
) -> None:
    position, reference = Position(3, instrument(exponent)), Reference()
    position.mark(bid, bid + spread)
    mark = Fraction(2 * bid + spread, 2)
    for side, price, quantity, fee in fills:
        position.on_fill(side, price, quantity, fee)
        reference.fill(side, price, quantity, fee)
        scale = 10**exponent
        assert position.quantity == reference.quantity
        # Exact up to here: 25 closes cannot exceed the denominator that is kept, unless sizes are this wild.
        tolerance = 0 if position._denominator < 2**64 else 1
        assert abs(position.average_price - round(reference.average)) <= tolerance
        assert abs(position.realised - round(reference.realised / scale)) <= tolerance
        unrealised = reference.quantity * (mark - reference.average) / scale
        assert abs(position.unrealised - round(unrealised)) <= tolerance
        assert position.fees == reference.fees
        assert position.mark_price == round(mark)
    assert position.fills == len(fills)


@given(fills=FILLS)
@settings(max_examples=100, deadline=None)
def test_no_money_appears_or_vanishes(fills: list[tuple[int, int, int, int]]) -> None:
    """Closing everything at once realises exactly what was received less what was paid."""
    position, cash = Position(1, instrument(0)), 0
    for side, price, quantity, fee in fills:
        position.on_fill(side, price, quantity, fee)
        cash += price * quantity if side == SELL else -price * quantity
    left = position.quantity
    if left:
        position.on_fill(SELL if left > 0 else BUY, 123_456_789, abs(left), 0)
        cash += 123_456_789 * left
    assert position.realised == cash
    assert position.average_price == 0
    assert position.unrealised == 0


def test_memory_stays_bounded_without_ever_being_flat() -> None:
    position, reference = Position(1, instrument()), Reference()
    position.on_fill(BUY, 100 * UNIT, 10**9, 0)
    reference.fill(BUY, 100 * UNIT, 10**9, 0)
    for step in range(3_000):
        side, quantity = (SELL, 333_333_331 + step) if step % 2 == 0 else (BUY, 333_333_337 + step)
        price = (100 + step % 7) * UNIT + step
        position.on_fill(side, price, quantity, 0)
        if step < 300:  # the reference has no such bound
            reference.fill(side, price, quantity, 0)
            assert abs(position.average_price - round(reference.average)) <= 1
            assert abs(position.realised - round(reference.realised / UNIT)) <= 1
    assert position._denominator.bit_length() <= 128


def test_through_zero_opens_the_rest_at_the_fill_price() -> None:
    position = Position(1, instrument())
    position.on_fill(BUY, 100 * UNIT, 2 * UNIT, 5)
    position.on_fill(SELL, 110 * UNIT, 3 * UNIT, -2)
    assert position.quantity == -UNIT
    assert position.average_price == 110 * UNIT
    assert position.realised == 20 * UNIT
    assert position.fees == 3
    position.mark(108 * UNIT, 110 * UNIT)
    assert position.unrealised == 1 * UNIT
    assert position.net == 21 * UNIT - 3


def test_marks_need_both_sides() -> None:
    position = Position(1, instrument())
    position.on_fill(BUY, 100 * UNIT, UNIT, 0)
    assert (position.mark_price, position.unrealised) == (0, 0)
    position.mark(101 * UNIT, 103 * UNIT)
    position.mark(0, 500 * UNIT)
    assert position.mark_price == 102 * UNIT
    assert position.unrealised == 2 * UNIT


def test_a_half_unit_mark_is_exact_in_the_gain() -> None:
    position = Position(1, instrument(0))
    position.mark(1, 2)
    position.on_fill(BUY, 1, 2, 0)
    assert position.unrealised == 1
    assert position.mark_price == 2  # 1.5, to the even one


def test_frame_values_are_checked() -> None:
    position = Position(7, instrument(0))
    position.on_fill(BUY, 2**62, 1, 0)
    values = position.frame_values()
    assert values["strategy_stream"] == 7
    assert values["quantity"] == 1
    position.on_fill(SELL, 1, 1, 0)
    position.on_fill(BUY, 2**62, 2**60, 0)
    position.mark(1, 1)
    with pytest.raises(OutOfRange, match="unrealised"):
        position.frame_values()


def test_shown_as_decimals() -> None:
    position = Position(1, instrument())
    position.on_fill(SELL, 61_685_990_000_000, 5_000_000, 30_842_995)
    assert position.as_dict() == {
        "strategy_stream": 1,
        "symbol": "BTCUSDT",
        "quantity": "-0.005000000",
        "average_price": "61685.99",
        "mark_price": "0.00",
        "realised": "0.00",
        "unrealised": "0.00",
        "fees": "0.030842995",
        "net": "-0.030842995",
        "fills": 1,
    }


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**20), st.booleans())
def test_round_half_even_is_that_of_fractions(numerator: int, denominator: int, negative: bool) -> None:
    denominator = -denominator if negative else denominator
    assert round_half_even(numerator, denominator) == round(Fraction(numerator, denominator))
