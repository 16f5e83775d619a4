"""What stands between a strategy and its stream: conversions, checks, limits, and the book of its own orders.

Everything an order needs before it is sent is a handful of integer comparisons, and sending is one call into
the port; the bookkeeping follows after. The desk knows nothing of processes: give it a port and it works.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any, Final

from ..journal.format import OrderAction, OrderType, Reason, Side, TimeInForce
from .errors import OrderError
from .market.instruments import Instrument, InstrumentTable
from .market.order_tracker import OrderTracker
from .market.orders import Order, OrderStatus
from .market.positions import Position
from .order_port import OrderPort
from .throttle import Throttle
from .units import INT64_MAX, PRICE_EXPONENT, Value, parse_decimal, to_units

if TYPE_CHECKING:
    from .._native import Depth, Fill, OrderReport

__all__ = ["OrderDesk", "SymbolOrId"]

SymbolOrId = str | int

_NEW: Final = int(OrderAction.NEW)
_REPLACE: Final = int(OrderAction.REPLACE)
_CANCEL: Final = int(OrderAction.CANCEL)
_BUY: Final = int(Side.BUY)
_LIMIT: Final = int(OrderType.LIMIT)
_MARKET: Final = int(OrderType.MARKET)
_GTC: Final = int(TimeInForce.GTC)
_IOC: Final = int(TimeInForce.IOC)
_TYPES: Final = {"limit": _LIMIT, "market": _MARKET}
_TIMES_IN_FORCE: Final = {"gtc": _GTC, "ioc": _IOC, "fok": int(TimeInForce.FOK)}


class _Line:
    """What the desk keeps per instrument."""

    __slots__ = (
        "depth",
        "id",
        "instrument",
        "limit",
        "lot",
        "position",
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
        self.depth: Depth | None = None


class OrderDesk:
    """Sends the requests of one strategy and follows what becomes of them.

    `max_position` is the largest absolute position per instrument, a decimal number (0: no limit): an order
    is refused when the position with all open orders of its side filled would go beyond it. `throttle_per_s`
    is a token bucket of that many requests a second, which holds one second's worth (0: no throttle); a
    cancel takes a token but is never refused.
    """

    def __init__(
        self,
        port: OrderPort,
        instruments: InstrumentTable,
        stream_id: int,
        *,
        throttle_per_s: int = 0,
        max_position: Decimal | str = "0",
    ) -> None:
        self.instruments = instruments
        self.stream_id = stream_id
        self.tracker = OrderTracker(instruments.by_id)
        self.now_ns = port.now_ns
        self.refusals: dict[int, int] = {}  # by Reason
        self._port = port
        self._lines: dict[SymbolOrId, _Line] = {}
        for instrument in instruments.values():
            line = _Line(instrument, stream_id, position_limit(max_position, instrument))
            # A strategy has the symbol, an event has the id: both name the instrument.
            self._lines[instrument.symbol] = self._lines[instrument.id] = line
        self._throttle = Throttle(throttle_per_s, port.now_ns) if throttle_per_s else None
        self._id_base = stream_id << 48
        self._orders = 0
        self._requests = 0
        self._timers = 0

    # -- requests --------------------------------------------------------------------------------

    def new(
        self,
        side: int,
        symbol: SymbolOrId,
        price: Value | None,
        quantity: Value,
        order_type: str,
        time_in_force: str,
    ) -> Order:
        """Send an order, or refuse it: see `Strategy.buy`."""
        line = self._lines.get(symbol)
        if line is None:
            line = self._no_line(symbol)
        kind = _TYPES.get(order_type, 0)
        lasting = _TIMES_IN_FORCE.get(time_in_force, 0)
        if kind != _LIMIT or not lasting:
            price, lasting = self._uncommon(kind, order_type, lasting, time_in_force, price)
        elif type(price) is not int:
            price = _price(price, line)
        if type(quantity) is not int:
            quantity = _quantity(quantity, line)
        reason = 0
        if (price <= 0 or price % line.tick) and kind == _LIMIT:
            reason = Reason.BAD_PRICE if price <= 0 else Reason.OFF_TICK
        elif quantity <= 0 or quantity % line.lot:
            reason = Reason.BAD_QUANTITY if quantity <= 0 else Reason.OFF_LOT
        elif price > INT64_MAX or quantity > INT64_MAX:
            reason = Reason.OVERFLOW
        elif (
            line.position.quantity + line.working_buy
            if side == _BUY
            else line.working_sell - line.position.quantity
        ) + quantity > line.limit:
            reason = Reason.MAX_POSITION
        elif self._throttle is not None and not self._throttle.take():
            reason = Reason.THROTTLED
        self._orders += 1
        self._requests += 1
        order_id = self._id_base + self._orders
        request_id = self._requests
        if reason:
            return self._refuse_new(
                Order(order_id, line.instrument, side, price, quantity, kind, lasting, request_id), reason
            )
        self._port.submit(_NEW, kind, lasting, side, line.id, price, quantity, order_id, request_id)
        order = Order(order_id, line.instrument, side, price, quantity, kind, lasting, request_id)
        order.reserved = quantity
        if side == _BUY:
            line.working_buy += quantity
        else:
            line.working_sell += quantity
        self.tracker.add(order)
        return order

    def replace(self, order: Order, price: Value | None, quantity: Value | None) -> bool:
        """Ask for another price or total quantity of a working order: see `Strategy.replace`."""
        if not order.is_open:
            return False
        line = self._lines[order.instrument.id]
        if price is None:
            price = order.price
        elif type(price) is not int:
            price = _price(price, line)
        if quantity is None:
            quantity = order.quantity
        elif type(quantity) is not int:
            quantity = _quantity(quantity, line)
        reason = 0
        if order.order_type != _LIMIT:
            reason = Reason.UNSUPPORTED
        elif price <= 0 or price % line.tick:
            reason = Reason.BAD_PRICE if price <= 0 else Reason.OFF_TICK
        elif quantity <= 0 or quantity % line.lot:
            reason = Reason.BAD_QUANTITY if quantity <= 0 else Reason.OFF_LOT
        elif price > INT64_MAX or quantity > INT64_MAX:
            reason = Reason.OVERFLOW
        else:
            more = quantity - order.filled - order.reserved
            if more > 0 and self._exposure(line, order.side) + more > line.limit:
                reason = Reason.MAX_POSITION
            elif self._throttle is not None and not self._throttle.take():
                reason = Reason.THROTTLED
        self._requests += 1
        if reason:
            self._count(reason)
            order.reason = int(reason)
            self._port.reject_local(
                _REPLACE,
                int(reason),
                order.side,
                line.id,
                _fitting(price),
                _fitting(quantity),
                order.filled,
                order.order_id,
                self._requests,
            )
            return False
        self._port.submit(
            _REPLACE,
            order.order_type,
            order.time_in_force,
            order.side,
            line.id,
            price,
            quantity,
            order.order_id,
            self._requests,
        )
        self.tracker.request(order, _REPLACE, price, quantity, self._requests)
        self._reserve(order)
        return True

    def cancel(self, order: Order) -> bool:
        """Ask for the end of a working order: see `Strategy.cancel`."""
        if not order.is_open or order.is_cancelling:
            return False
        if self._throttle is not None:
            self._throttle.take()
        self._requests += 1
        self._port.submit(
            _CANCEL,
            order.order_type,
            order.time_in_force,
            order.side,
            order.instrument.id,
            0,
            0,
            order.order_id,
            self._requests,
        )
        self.tracker.request(order, _CANCEL, 0, 0, self._requests)
        return True

    def set_timer(self, due_ns: int) -> int:
        """A timer that fires once at `due_ns` of the strategy's clock; returns its id, counted from 1."""
        self._timers += 1
        self._port.set_timer(self._timers, due_ns)
        return self._timers

    def cancel_timer(self, timer_id: int) -> bool:
        """Forget a timer; False when it has fired or never was."""
        return self._port.cancel_timer(timer_id)

    # -- events ----------------------------------------------------------------------------------

    def on_depth(self, depth: Depth) -> None:
        """Remember the book that positions are marked at."""
        line = self._lines.get(depth.instrument_id)
        if line is not None:
            line.depth = depth

    def on_report(self, report: OrderReport) -> Order | None:
        """An answer of a venue. Returns the order it is about, None when there is none."""
        order = self.tracker.on_report(
            report.stream_id,
            report.seq,
            report.order_id,
            report.instrument_id,
            report.status,
            report.side,
            report.reason,
            report.price,
            report.quantity,
            report.filled,
            report.request_id,
            report.action,
        )
        if order is not None:
            self._reserve(order)
        return order

    def on_fill(self, fill: Fill) -> Order | None:
        """An execution. Returns the order it filled, None when it has none or is a repetition."""
        side, price, quantity, fee = fill.side, fill.price, fill.quantity, fill.fee
        order, counts = self.tracker.on_fill(
            fill.stream_id,
            fill.seq,
            fill.order_id,
            fill.exec_id,
            fill.instrument_id,
            side,
            price,
            quantity,
            fill.filled,
            fee,
        )
        if not counts:
            return None
        line = self._lines.get(fill.instrument_id)
        if line is not None:
            line.position.on_fill(side, price, quantity, fee)
        if order is not None:
            self._reserve(order)
        return order

    # -- what there is ---------------------------------------------------------------------------

    def position(self, symbol: SymbolOrId) -> Position:
        """The position in an instrument, marked at its last Depth."""
        line = self._lines.get(symbol)
        if line is None:
            line = self._no_line(symbol)
        depth = line.depth
        if depth is not None and depth.bid_count and depth.ask_count:
            line.position.mark(depth.bid_price, depth.ask_price)
        return line.position

    def open_orders(self, symbol: SymbolOrId | None = None) -> list[Order]:
        """Live orders, oldest first."""
        if symbol is None:
            return list(self.tracker.orders.values())
        line = self._lines.get(symbol) or self._no_line(symbol)
        return list(self.tracker.open_orders(line.id))

    def summary(self) -> dict[str, Any]:
        """Counts for the end of a run."""
        return {
            "orders": self._orders,
            "requests": self._requests,
            "open_orders": len(self.tracker.orders),
            "refusals": {
                Reason(reason).name.lower(): count for reason, count in sorted(self.refusals.items())
            },
            "impossible": {kind: count for kind, count in self.tracker.impossible.items() if count},
        }

    # -- inside ----------------------------------------------------------------------------------

    def _exposure(self, line: _Line, side: int) -> int:
        if side == _BUY:
            return line.position.quantity + line.working_buy
        return line.working_sell - line.position.quantity

    def _reserve(self, order: Order) -> None:
        """Bring what the position limit counts for `order` up to date."""
        worst = 0
        if order.is_open:
            worst = order.quantity
            if order.pending:
                for action, _, quantity in order.pending.values():
                    if action == _REPLACE and quantity > worst:
                        worst = quantity
            worst = max(worst - order.filled, 0)
        change = worst - order.reserved
        if change:
            order.reserved = worst
            line = self._lines[order.instrument.id]
            if order.side == _BUY:
                line.working_buy += change
            else:
                line.working_sell += change

    def _refuse_new(self, order: Order, reason: int) -> Order:
        self._count(reason)
        order.reason = int(reason)
        order.end(OrderStatus.REJECTED)
        self._port.reject_local(
            _NEW,
            order.reason,
            order.side,
            order.instrument.id,
            _fitting(order.price),
            _fitting(order.quantity),
            0,
            order.order_id,
            order.request_id,
        )
        self.tracker.add(order)
        return order

    def _count(self, reason: int) -> None:
        self.refusals[int(reason)] = self.refusals.get(int(reason), 0) + 1

    def _no_line(self, symbol: SymbolOrId) -> _Line:
        if isinstance(symbol, int):
            known = ", ".join(f"{one.id} ({one.symbol})" for one in self.instruments.values())
            raise OrderError(f"no instrument with id {symbol} in this run; it has {known}")
        return self._lines[self.instruments[symbol].id]  # raises OrderError

    def _uncommon(
        self, kind: int, order_type: str, lasting: int, time_in_force: str, price: Value | None
    ) -> tuple[int, int]:
        """Price and time in force of a market order; `OrderError` for words that are none."""
        if not kind:
            raise OrderError(f"type: {order_type!r} is not one of {', '.join(_TYPES)}")
        if not lasting:
            raise OrderError(f"tif: {time_in_force!r} is not one of {', '.join(_TIMES_IN_FORCE)}")
        if price is not None and price != 0:
            raise OrderError(f"price: a market order has none, found {price!r}; pass None")
        return 0, _IOC if lasting == _GTC else lasting


def position_limit(max_position: Decimal | str, instrument: Instrument) -> int:
    """A limit in the instrument's units, rounded down where they are coarser than it; 0 is none."""
    limit = Fraction(parse_decimal(max_position, what="max_position"))
    if limit < 0:
        raise OrderError(f"max_position: {max_position} is negative; 0 means no limit")
    return min(floor(limit * 10**instrument.quantity_exponent), INT64_MAX) if limit else INT64_MAX


def _price(value: Value | None, line: _Line) -> int:
    if value is None:
        raise OrderError("price: a limit order needs one, found None")
    if isinstance(value, float):
        return line.instrument.parse_price(value)
    return to_units(value, PRICE_EXPONENT, what="price")


def _quantity(value: Value, line: _Line) -> int:
    if isinstance(value, float):
        return line.instrument.parse_quantity(value)
    return to_units(value, line.instrument.quantity_exponent, what="quantity")


def _fitting(value: int) -> int:
    """What a frame can hold of a value that was refused for not fitting."""
    return max(-INT64_MAX, min(value, INT64_MAX))
