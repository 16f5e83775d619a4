"""What stands between a strategy and its stream: conversions, checks, limits, and the book of its own orders.

Everything an order needs before it is sent is a handful of integer comparisons, and sending is one call into
the port; the bookkeeping follows after. The desk knows nothing of processes: give it a port and it works.
"""

from __future__ import annotations

from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from ..journal.format import OrderAction, OrderType, Reason, Side, TimeInForce
from .errors import OrderError
from .market.instruments import InstrumentTable
from .market.order_tracker import FILL_FIELDS, REPORT_FIELDS, OrderTracker
from .market.orders import Order, OrderStatus
from .market.positions import Position
from .order_line import OrderLine, position_limit
from .order_port import OrderPort
from .throttle import Throttle
from .units import INT64_MAX, Value

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


_REPORT_VALUES: Final = attrgetter(*REPORT_FIELDS)
_FILL_VALUES: Final = attrgetter(*FILL_FIELDS)


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
        self.depth: Depth | None = None  # the one being handled, not yet with its instrument
        self._port = port
        self._lines: dict[SymbolOrId, OrderLine] = {}
        for instrument in instruments.values():
            line = OrderLine(instrument, stream_id, position_limit(max_position, instrument))
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
        type: str = "limit",
        tif: str = "gtc",
    ) -> Order:
        """Send an order, or refuse it: see `Strategy.buy`.

        The ways that an order usually goes come first, and what need not be known to send it comes after:
        between a Depth and the order that answers it every step counts.
        """
        line = self._lines.get(symbol)
        if line is None:
            line = self._no_line(symbol)
        kind, lasting = _LIMIT, _GTC
        if type != "limit" or tif != "gtc":
            kind, lasting = _words(type, tif)
        if kind != _LIMIT:
            price = _no_price(price)
        elif not isinstance(price, int):
            price = line.price(price)
        if not isinstance(quantity, int):
            quantity = line.quantity(quantity)
        room = line.room_buy if side == _BUY else line.room_sell
        reason = 0
        if not 0 < price <= INT64_MAX or price % line.tick:
            reason = line.price_reason(price) if kind == _LIMIT else 0
        if not reason and (not 0 < quantity <= room or quantity % line.lot):
            reason = line.quantity_reason(quantity, quantity, side)
        throttle = self._throttle
        if throttle is not None and throttle.spare <= 0 and not reason and not throttle.refill():
            reason = Reason.THROTTLED
        self._orders += 1
        self._requests += 1
        order_id = self._id_base + self._orders
        request_id = self._requests
        if not reason:
            self._port.submit(_NEW, kind, lasting, side, line.id, price, quantity, order_id, request_id)
            if throttle is not None:
                throttle.take()
        order = Order(order_id, line.instrument, side, price, quantity, kind, lasting, request_id)
        if reason:
            order.reason = int(reason)
            order.end(OrderStatus.REJECTED)
            self._refuse(_NEW, order, price, quantity)
        self.tracker.add(order)
        line.update(order)
        return order

    def replace(self, order: Order, price: Value | None, quantity: Value | None) -> bool:
        """Ask for another price or total quantity of a working order: see `Strategy.replace`."""
        if not order.is_open:
            return False
        line = self._lines[order.instrument.id]
        if price is None:
            price = order.price
        elif not isinstance(price, int):
            price = line.price(price)
        if quantity is None:
            quantity = order.quantity
        elif not isinstance(quantity, int):
            quantity = line.quantity(quantity)
        throttle = self._throttle
        more = quantity - order.filled - order.reserved
        reason = (
            (0 if order.order_type == _LIMIT else Reason.UNSUPPORTED)
            or line.price_reason(price)
            or line.quantity_reason(quantity, more, order.side)
            or (Reason.THROTTLED if throttle is not None and not throttle.refill() else 0)
        )
        self._requests += 1
        if reason:
            order.reason = int(reason)
            self._refuse(_REPLACE, order, price, quantity)
            return False
        self._send(_REPLACE, order, price, quantity)
        if throttle is not None:
            throttle.take()
        line.update(order)
        return True

    def cancel(self, order: Order) -> bool:
        """Ask for the end of a working order: see `Strategy.cancel`."""
        if not order.is_open or order.is_cancelling:
            return False
        self._requests += 1
        self._send(_CANCEL, order, 0, 0)
        if self._throttle is not None and self._throttle.refill():
            self._throttle.take()
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
        """Remember the book that positions are marked at. Called after the strategy has acted on it."""
        line = self._lines.get(depth.instrument_id)
        if line is not None:
            line.depth = depth

    def on_report(self, report: OrderReport) -> Order | None:
        """An answer of a venue. Returns the order it is about, None when there is none."""
        order = self.tracker.on_report(*_REPORT_VALUES(report))
        if order is not None:
            self._lines[order.instrument.id].update(order)
        return order

    def on_fill(self, fill: Fill) -> Order | None:
        """An execution. Returns the order it filled, None when it has none or is a repetition."""
        values = _FILL_VALUES(fill)
        order, counts = self.tracker.on_fill(*values)
        if not counts:
            return None
        _, _, _, _, instrument_id, side, price, quantity, _, fee = values
        line = self._lines.get(instrument_id)
        if line is not None:
            line.position.on_fill(side, price, quantity, fee)
            line.measure()
        if order is not None:
            self._lines[order.instrument.id].update(order)
        return order

    # -- what there is ---------------------------------------------------------------------------

    def position(self, symbol: SymbolOrId) -> Position:
        """The position in an instrument, marked at its last Depth."""
        line = self._lines.get(symbol)
        if line is None:
            line = self._no_line(symbol)
        depth = self.depth
        if depth is None or depth.instrument_id != line.id:
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

    def _send(self, action: int, order: Order, price: int, quantity: int) -> None:
        """A request about an order that exists, with the newest request id."""
        request_id, instrument = self._requests, order.instrument.id
        kind, lasting = order.order_type, order.time_in_force
        self._port.submit(
            action, kind, lasting, order.side, instrument, price, quantity, order.order_id, request_id
        )
        self.tracker.request(order, action, price, quantity, request_id)

    def _refuse(self, action: int, order: Order, price: int, quantity: int) -> None:
        """Count and journal that the newest request was refused here, for `order.reason`."""
        reason = order.reason
        self.refusals[reason] = self.refusals.get(reason, 0) + 1
        side, instrument, filled, order_id = order.side, order.instrument.id, order.filled, order.order_id
        price, quantity = _fitting(price), _fitting(quantity)
        self._port.reject_local(
            action, reason, side, instrument, price, quantity, filled, order_id, self._requests
        )

    def _no_line(self, symbol: SymbolOrId) -> OrderLine:
        if isinstance(symbol, int):
            known = ", ".join(f"{one.id} ({one.symbol})" for one in self.instruments.values())
            raise OrderError(f"no instrument with id {symbol} in this run; it has {known}")
        return self._lines[self.instruments[symbol].id]  # raises OrderError


def _words(type: str, tif: str) -> tuple[int, int]:
    """Order type and time in force; `OrderError` for words that are none."""
    kind, lasting = _TYPES.get(type), _TIMES_IN_FORCE.get(tif)
    if kind is None:
        raise OrderError(f"type: {type!r} is not one of {', '.join(_TYPES)}")
    if lasting is None:
        raise OrderError(f"tif: {tif!r} is not one of {', '.join(_TIMES_IN_FORCE)}")
    # A market order never rests.
    return kind, _IOC if kind == _MARKET and lasting == _GTC else lasting


def _no_price(price: Value | None) -> int:
    if price is not None and price != 0:
        raise OrderError(f"price: a market order has none, found {price!r}; pass None")
    return 0


def _fitting(value: int) -> int:
    """What a frame can hold of a value that was refused for not fitting."""
    return max(-INT64_MAX, min(value, INT64_MAX))
