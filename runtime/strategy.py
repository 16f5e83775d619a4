"""What a strategy author writes against: subclass `Strategy`, override the events you need.

    from tapewire import Strategy

    class Momentum(Strategy):
        class Params(msgspec.Struct):
            size: Decimal = Decimal("0.01")

        def on_depth(self, depth):
            if not self.open_orders():
                self.buy("BTCUSDT", depth.best_bid.price, self.params.size)

Prices are ints of 1e-9, quantities ints of 10^-quantity_exponent of the instrument (1e-9 unless configured);
event objects and orders also give both as Decimals (`price_decimal`, `quantity_decimal`). Time is ints of
nanoseconds: event time when a recording is played, the monotonic clock when live.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from ..journal.format import Side
from .errors import OrderError
from .market.instruments import InstrumentTable
from .market.orders import Order
from .market.positions import Position
from .order_desk import OrderDesk, SymbolOrId
from .units import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._native import BookTicker, Depth, Fill, OrderReport, Timer, Trade

__all__ = ["NoParams", "Strategy"]

_BUY: Final = int(Side.BUY)
_SELL: Final = int(Side.SELL)


class NoParams(msgspec.Struct, frozen=True):
    """The parameters of a strategy that declares none."""


class _NotRunning:
    """Stands where the order desk will be until the strategy is started."""

    def __getattr__(self, name: str) -> Any:
        raise OrderError(
            "the strategy is not running yet: orders, positions and timers are there from on_start on; "
            "move this out of __init__"
        )


class Strategy:
    """Base class of every strategy. One object lives for one run; its methods are called from one thread.

    Parameters are declared as a msgspec struct, either nested as `class Params(msgspec.Struct)` or as an
    annotation `params: MyParams`; `self.params` holds the validated values from the topology.

    An exception that leaves an event method ends the strategy's process; the log names the frame.
    """

    Params: ClassVar[type[msgspec.Struct]] = NoParams
    params: Any = NoParams()

    _desk: OrderDesk = _NotRunning()  # type: ignore[assignment]
    _log: Callable[[str], None] | None = None

    # -- events: override what you need ----------------------------------------------------------

    def on_start(self) -> None:
        """The run begins; orders can be sent from here on."""

    def on_depth(self, depth: Depth) -> None:
        """A new order book of an instrument: up to 10 levels a side, `best_bid` and `best_ask` (Level)."""

    def on_trade(self, trade: Trade) -> None:
        """A public trade."""

    def on_ticker(self, ticker: BookTicker) -> None:
        """New best prices of an instrument, from a feed that has them apart from its depth."""

    def on_order(self, order: Order, report: OrderReport) -> None:
        """The venue answered: accepted, rejected, replaced, cancelled or expired. `order` shows it already.

        What this process itself refuses is not reported here: `buy`, `sell` and `replace` say so at once.
        """

    def on_fill(self, order: Order, fill: Fill) -> None:
        """An execution of one of this strategy's orders; `order` and `position` include it already."""

    def on_timer(self, timer: Timer) -> None:
        """A timer of `set_timer` is due: `timer_id`, `due_time`, `fire_time`."""

    def on_stop(self) -> None:
        """The run ends in good order. Requests sent from here are still journaled and reach the venue."""

    # -- what a strategy can do ------------------------------------------------------------------

    def buy(
        self,
        symbol: SymbolOrId,
        price: Value | None,
        quantity: Value,
        type: str = "limit",
        tif: str = "gtc",
    ) -> Order:
        """Send a buy order; returns it at once, `pending_new`.

        `symbol`: the symbol or the instrument id. `price`, `quantity`: int (in units), Decimal, str, or a
        float that is exactly on tick and lot. `type`: "limit" or "market" (price None). `tif`: "gtc", "ioc"
        or "fok"; a market order never rests, so "gtc" means "ioc" there.

        What breaks a rule is refused here, without reaching the venue: the order comes back with status
        `rejected` and the `reason` (off_tick, off_lot, bad_price, bad_quantity, overflow, throttled,
        max_position), which is journaled as well.

        Raises `OffTick` or `OffLot` for a float beside the grid and for more digits than a unit has,
        `OrderError` for an unknown symbol, type or tif and for what is no number.
        """
        return self._desk.new(_BUY, symbol, price, quantity, type, tif)

    def sell(
        self,
        symbol: SymbolOrId,
        price: Value | None,
        quantity: Value,
        type: str = "limit",
        tif: str = "gtc",
    ) -> Order:
        """Send a sell order; as `buy`."""
        return self._desk.new(_SELL, symbol, price, quantity, type, tif)

    def replace(self, order: Order, price: Value | None = None, quantity: Value | None = None) -> bool:
        """Ask for another price or quantity of a working limit order; None leaves it as it is.

        `quantity` is the new total, what was filled included; at or below that the order is complete.
        Returns whether the request was sent: False for an order that is done, and when it was refused here
        (`order.reason` says why, as for `buy`).
        """
        return self._desk.replace(order, price, quantity)

    def cancel(self, order: Order) -> bool:
        """Ask for the end of a working order. False when it is done or being cancelled already."""
        return self._desk.cancel(order)

    def open_orders(self, symbol: SymbolOrId | None = None) -> list[Order]:
        """The orders that are not done, oldest first; of one instrument, or all."""
        return self._desk.open_orders(symbol)

    def position(self, symbol: SymbolOrId) -> Position:
        """The position in an instrument, from the fills this process received, marked at the last Depth.

        The object is the live one: it changes with later fills, and is marked anew by this call.
        """
        return self._desk.position(symbol)

    def set_timer(self, delay_ns: int | None = None, *, at_ns: int | None = None) -> int:
        """Have `on_timer` called once, after `delay_ns` or at `at_ns` of `now_ns`; returns the timer's id.

        Raises `OrderError` unless exactly one of them is given.
        """
        if (delay_ns is None) == (at_ns is None):
            raise OrderError("set_timer: pass delay_ns or at_ns, one of them")
        due = at_ns if delay_ns is None else self._desk.now_ns() + delay_ns
        return self._desk.set_timer(int(due or 0))

    def cancel_timer(self, timer_id: int) -> bool:
        """Forget a timer. False when it has fired or never was."""
        return self._desk.cancel_timer(timer_id)

    def now_ns(self) -> int:
        """The strategy's clock: event time when a recording is played, else CLOCK_MONOTONIC."""
        return self._desk.now_ns()

    def log(self, message: object) -> None:
        """Write a line to the log of the strategy's process, with its clock."""
        if self._log is None:
            self._desk.now_ns()  # not running: says so
        else:
            self._log(str(message))

    @property
    def instruments(self) -> InstrumentTable:
        """The instruments of the run: a mapping by symbol, `.by_id` by instrument id."""
        return self._desk.instruments

    # -- for the runtime -------------------------------------------------------------------------

    def attach(self, desk: OrderDesk, params: msgspec.Struct, log: Callable[[str], None]) -> None:
        """Connect the strategy to a run. Called by the runtime, before `on_start`."""
        self._desk = desk
        self.params = params
        self._log = log
        # One call fewer between a Depth and its order, unless a subclass has its own idea of buying.
        if type(self).buy is Strategy.buy:
            self.buy = partial(desk.new, _BUY)  # type: ignore[method-assign]
        if type(self).sell is Strategy.sell:
            self.sell = partial(desk.new, _SELL)  # type: ignore[method-assign]
