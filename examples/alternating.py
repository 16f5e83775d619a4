"""The strategy that latency is measured with: every fifth order book it takes the touch, buying and selling
in turn.

It is as simple as a strategy that trades can be, so what is measured is the runtime.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from tapewire import Strategy

if TYPE_CHECKING:
    from tapewire import Depth


class Alternating(Strategy):
    """On each `every`-th depth one limit order: a buy at the best ask, next time a sell at the best bid."""

    class Params(Struct, frozen=True):
        every: Annotated[int, Meta(ge=1, description="an order on each N-th depth")] = 5
        quantity: Annotated[Decimal, Meta(description="order quantity; 0 is one lot")] = Decimal(0)

    def on_start(self) -> None:
        self.depths = 0
        self.every = self.params.every
        self.next_is_buy = True
        # Converted once: ints go through without any arithmetic on decimals per order.
        self.quantity = {
            instrument.id: instrument.parse_quantity(self.params.quantity) or instrument.lot
            for instrument in self.instruments.values()
        }

    def on_depth(self, depth: Depth) -> None:
        self.depths += 1
        if self.depths % self.every:
            return
        bid, ask = depth.bid_price, depth.ask_price
        if not (bid and ask):  # 0: that side is empty
            return
        instrument = depth.instrument_id
        if self.next_is_buy:
            self.buy(instrument, ask, self.quantity[instrument])
        else:
            self.sell(instrument, bid, self.quantity[instrument])
        self.next_is_buy = not self.next_is_buy

    def on_stop(self) -> None:
        for instrument in self.instruments.values():
            self.log(self.position(instrument.symbol))
