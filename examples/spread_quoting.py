"""Quotes one bid and one ask around the touch, follows it, and leans against its own inventory.

Both quotes stand `offset_ticks` outside the touch (negative: inside the spread, but never crossing it). While
the position is long, both move down by up to `skew_ticks`, in proportion to `max_inventory`, so that selling
becomes likelier than buying; while short, up. A side that would take the position beyond `max_inventory` is
not quoted. Nothing here looks at a clock or a random number: the same events give the same orders.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from tapewire import Strategy

if TYPE_CHECKING:
    from tapewire import Depth, Instrument, Order


class Quotes:
    """What the strategy knows about one instrument."""

    def __init__(self, instrument: Instrument, params: SpreadQuoting.Params) -> None:
        self.instrument = instrument
        self.size = instrument.parse_quantity(params.size)
        self.max_inventory = instrument.parse_quantity(params.max_inventory)
        self.bid: Order | None = None
        self.ask: Order | None = None


class SpreadQuoting(Strategy):
    """One quote a side and instrument, replaced when the touch or the inventory moves it."""

    class Params(Struct, frozen=True):
        size: Annotated[Decimal, Meta(description="quantity of each quote")] = Decimal("0.01")
        offset_ticks: Annotated[int, Meta(description="how far outside the touch, in ticks")] = 0
        max_inventory: Annotated[Decimal, Meta(description="largest position either way")] = Decimal("0.05")
        skew_ticks: Annotated[int, Meta(ge=0, description="shift at full inventory, in ticks")] = 2

        def __post_init__(self) -> None:
            if self.size <= 0 or self.max_inventory < self.size:
                raise ValueError("size must be positive, max_inventory at least size")

    def on_start(self) -> None:
        self.quotes = {
            instrument.id: Quotes(instrument, self.params) for instrument in self.instruments.values()
        }

    def on_depth(self, depth: Depth) -> None:
        if not (depth.bid_count and depth.ask_count):
            return
        quotes = self.quotes[depth.instrument_id]
        tick = quotes.instrument.tick
        best_bid, best_ask = depth.bid_price, depth.ask_price
        inventory = self.position(depth.instrument_id).quantity
        offset = self.params.offset_ticks * tick
        skew = -tick * (self.params.skew_ticks * inventory // quotes.max_inventory)
        # Never at or beyond the other side: a quote makes, it does not take.
        bid = max(min(best_bid - offset + skew, best_ask - tick), tick)
        ask = max(best_ask + offset + skew, best_bid + tick)
        wants_bid = inventory + quotes.size <= quotes.max_inventory
        wants_ask = inventory - quotes.size >= -quotes.max_inventory
        quotes.bid = self.follow(quotes, quotes.bid, "buy", bid if wants_bid else None)
        quotes.ask = self.follow(quotes, quotes.ask, "sell", ask if wants_ask else None)

    def follow(self, quotes: Quotes, order: Order | None, side: str, price: int | None) -> Order | None:
        """Bring a side's quote to `price` (None: no quote); returns the order that stands for it now."""
        if order is None or not order.is_open:
            if price is None:
                return None
            send = self.buy if side == "buy" else self.sell
            return send(quotes.instrument.id, price, quotes.size)
        if price is None:
            self.cancel(order)
        elif order.price != price and not order.is_waiting:  # one request at a time
            self.replace(order, price)
        return order

    def on_stop(self) -> None:
        for order in self.open_orders():
            self.cancel(order)
        for instrument in self.instruments.values():
            self.log(self.position(instrument.symbol))
