"""What a strategy's order desk keeps per instrument: position, open orders, room below the limit."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Final

from ..journal.format import OrderAction, Reason, Side
from .errors import OrderError
from .market.instruments import Instrument
from .market.orders import Order
from .market.positions import Position
from .units import INT64_MAX, PRICE_EXPONENT, Value, parse_decimal, to_units

if TYPE_CHECKING:
    from .._native import Depth

__all__ = ["OrderLine", "position_limit"]

_REPLACE: Final = int(OrderAction.REPLACE)
_BUY: Final = int(Side.BUY)


class OrderLine:
    """One instrument of one strategy. Quantities are ints in the instrument's units.

    `room_buy` and `room_sell` are how much more may be ordered before the position, with every open order
    of that side filled, would go beyond the limit. They are kept ready, so that an order compares only once.
    """

    __slots__ = (
        "depth",
        "id",
        "instrument",
        "limit",
        "lot",
        "position",
        "room_buy",
        "room_sell",
        "tick",
        "working_buy",
        "working_sell",
    )

    def __init__(self, instrument: Instrument, stream_id: int, limit: int) -> None:
        self.instrument = instrument
        self.id = instrument.id
        self.tick = instrument.tick
        self.lot = instrument.lot
        self.limit = limit
        self.position = Position(stream_id, instrument)
        self.working_buy = 0  # worst case of what open orders can still buy
        self.working_sell = 0
        self.room_buy = limit
        self.room_sell = limit
        self.depth: Depth | None = None

    def update(self, order: Order) -> None:
        """Count what `order` can still trade at worst: its leaves, or those of a larger replace under way."""
        worst = 0
        if order.is_open:
            worst = order.quantity
            if order.pending:
                for action, _, quantity in order.pending.values():
                    if action == _REPLACE and quantity > worst:
                        worst = quantity
            worst = max(worst - order.filled, 0)
        if order.side == _BUY:
            self.working_buy += worst - order.reserved
        else:
            self.working_sell += worst - order.reserved
        order.reserved = worst
        self.measure()

    def measure(self) -> None:
        """Bring the rooms up to date with the position and the open orders."""
        held = self.position.quantity
        self.room_buy = self.limit - held - self.working_buy
        self.room_sell = self.limit + held - self.working_sell

    def room(self, side: int) -> int:
        """How much more may be ordered on that side."""
        return self.room_buy if side == _BUY else self.room_sell

    def price(self, value: Value | None) -> int:
        """A limit price in units, from whatever form; a float must be on the tick."""
        if value is None:
            raise OrderError("price: a limit order needs one, found None")
        if isinstance(value, float):
            return self.instrument.parse_price(value)
        return to_units(value, PRICE_EXPONENT, what="price")

    def quantity(self, value: Value) -> int:
        """A quantity in units, from whatever form; a float must be on the lot."""
        if isinstance(value, float):
            return self.instrument.parse_quantity(value)
        return to_units(value, self.instrument.quantity_exponent, what="quantity")

    def price_reason(self, price: int) -> int:
        """Why a limit order cannot have that price, 0 where it can."""
        if price <= 0:
            return Reason.BAD_PRICE
        if price > INT64_MAX:
            return Reason.OVERFLOW
        return Reason.OFF_TICK if price % self.tick else 0

    def quantity_reason(self, quantity: int, more: int, side: int) -> int:
        """Why an order cannot have that quantity, `more` than what is counted for it already; else 0."""
        if quantity <= 0:
            return Reason.BAD_QUANTITY
        if quantity > INT64_MAX:
            return Reason.OVERFLOW
        if quantity % self.lot:
            return Reason.OFF_LOT
        return Reason.MAX_POSITION if more > 0 and more > self.room(side) else 0


def position_limit(max_position: Decimal | str, instrument: Instrument) -> int:
    """A limit in the instrument's units, rounded down where they are coarser than it; 0 is none."""
    limit = Fraction(parse_decimal(max_position, what="max_position"))
    if limit < 0:
        raise OrderError(f"max_position: {max_position} is negative; 0 means no limit")
    return min(floor(limit * 10**instrument.quantity_exponent), INT64_MAX) if limit else INT64_MAX
