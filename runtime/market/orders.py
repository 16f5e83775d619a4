"""An order and where it stands in its life.

    input new          -> pending_new
    accepted           -> new
    fill               -> partially_filled | filled
    input replace      -> pending_replace, then replaced or rejected -> new | partially_filled | filled
    input cancel       -> pending_cancel,  then cancelled, or rejected -> new | partially_filled
    rejected           -> rejected          (the new order itself was refused)
    cancelled, expired -> cancelled, expired

`order_tracker` makes these transitions from frames and checks them.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from ...journal.format import OrderAction, OrderType, Reason, Side, TimeInForce
from ..units import CASH_EXPONENT, format_cash, from_units
from .instruments import Instrument
from .rounding import round_half_even

__all__ = ["Order", "OrderStatus"]

_CANCEL: Final = int(OrderAction.CANCEL)
_BUY: Final = int(Side.BUY)


class OrderStatus(StrEnum):
    """Where an order stands. The last four are final."""

    PENDING_NEW = "pending_new"
    NEW = "new"
    PARTIALLY_FILLED = "partially_filled"
    PENDING_REPLACE = "pending_replace"
    PENDING_CANCEL = "pending_cancel"
    FILLED = "filled"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    EXPIRED = "expired"


class Order:
    """One order. Prices are ints of 1e-9, quantities ints of 10^-quantity_exponent of its instrument.

    `quantity` is the total, `filled` + `leaves` of it; a final order has no leaves. `reason` says why it
    was rejected, or why its last request was. `tag` is the strategy's own to use.
    """

    __slots__ = (
        "fees",
        "filled",
        "fills",
        "instrument",
        "is_open",
        "leaves",
        "notional",
        "order_id",
        "order_type",
        "pending",
        "price",
        "quantity",
        "reason",
        "request_id",
        "reserved",
        "seen_by_venue",
        "side",
        "status",
        "tag",
        "time_in_force",
    )

    def __init__(
        self,
        order_id: int,
        instrument: Instrument,
        side: int,
        price: int,
        quantity: int,
        order_type: int,
        time_in_force: int,
        request_id: int,
    ) -> None:
        self.order_id = order_id
        self.instrument = instrument
        self.side = side
        self.price = price
        self.quantity = quantity
        self.order_type = order_type
        self.time_in_force = time_in_force
        self.request_id = request_id
        self.filled = 0
        self.leaves = quantity
        self.notional = 0  # sum of price times quantity over the fills, exact
        self.fees = 0
        self.fills = 0
        self.status = OrderStatus.PENDING_NEW
        self.reason = 0
        self.is_open = True
        self.seen_by_venue = False  # accepted
        self.pending: dict[int, tuple[int, int, int]] | None = None  # request id -> action, price, quantity
        self.reserved = 0  # what the position limit counts for it, kept by whoever checks that limit
        self.tag: Any = None

    @property
    def symbol(self) -> str:
        return self.instrument.symbol

    @property
    def strategy_stream(self) -> int:
        """Id of the stream of the strategy that owns the order."""
        return self.order_id >> 48

    @property
    def is_waiting(self) -> bool:
        """Whether the venue has still to answer one of its requests."""
        return self.is_open and (bool(self.pending) or not self.seen_by_venue)

    @property
    def is_cancelling(self) -> bool:
        """Whether a cancel is under way."""
        return self.status is OrderStatus.PENDING_CANCEL

    @property
    def is_buy(self) -> bool:
        return self.side == _BUY

    @property
    def price_decimal(self) -> Decimal:
        return self.instrument.price(self.price)

    @property
    def quantity_decimal(self) -> Decimal:
        return self.instrument.quantity(self.quantity)

    @property
    def filled_decimal(self) -> Decimal:
        return self.instrument.quantity(self.filled)

    @property
    def leaves_decimal(self) -> Decimal:
        return self.instrument.quantity(self.leaves)

    @property
    def fees_decimal(self) -> Decimal:
        """Fees so far in the quote currency; negative is a rebate."""
        return from_units(self.fees, CASH_EXPONENT)

    @property
    def average_fill_price(self) -> Decimal | None:
        """Mean price of its fills to the nearest 1e-9, None before the first."""
        return self.instrument.price(round_half_even(self.notional, self.filled)) if self.filled else None

    def refresh(self) -> None:
        """Status of a live order, from what the venue has still to answer and what was filled."""
        pending = self.pending
        if pending:
            cancelling = any(action == _CANCEL for action, _, _ in pending.values())
            self.status = OrderStatus.PENDING_CANCEL if cancelling else OrderStatus.PENDING_REPLACE
        elif not self.seen_by_venue:
            self.status = OrderStatus.PENDING_NEW
        else:
            self.status = OrderStatus.PARTIALLY_FILLED if self.filled else OrderStatus.NEW

    def end(self, status: OrderStatus) -> None:
        """Make it final."""
        self.status = status
        self.leaves = 0
        self.is_open = False

    def as_dict(self) -> dict[str, Any]:
        """The order for JSON: numbers that a person reads are decimal strings, ids are ints."""
        instrument = self.instrument
        mean = round_half_even(self.notional, self.filled) if self.filled else None
        return {
            "order_id": self.order_id,
            "strategy_stream": self.strategy_stream,
            "symbol": self.symbol,
            "side": Side(self.side).name.lower(),
            "type": OrderType(self.order_type).name.lower() if self.order_type else "",
            "tif": TimeInForce(self.time_in_force).name.lower() if self.time_in_force else "",
            "status": str(self.status),
            "reason": Reason(self.reason).name.lower() if self.reason else "",
            "price": instrument.format_price(self.price),
            "quantity": instrument.format_quantity(self.quantity),
            "filled": instrument.format_quantity(self.filled),
            "leaves": instrument.format_quantity(self.leaves),
            "average_fill_price": None if mean is None else instrument.format_price(mean),
            "fees": format_cash(self.fees),
            "fills": self.fills,
        }

    def __repr__(self) -> str:
        side = "buy" if self.side == _BUY else "sell"
        why = f" {Reason(self.reason).name.lower()}" if self.reason else ""
        instrument = self.instrument
        return (
            f"<Order {self.order_id >> 48}:{self.order_id & 0xFFFF_FFFF_FFFF} {side} "
            f"{instrument.format_quantity(self.quantity)} {self.symbol} "
            f"@ {instrument.format_price(self.price)} {self.status}{why}, "
            f"filled {instrument.format_quantity(self.filled)}>"
        )
