"""Follows orders by the frames they leave behind, every transition checked.

`OrderTracker` is used by the strategy process (its own orders) and by the ledger (everybody's). A venue or
a strategy that says something impossible must not stop either, so nothing is raised here: the frame is
counted under its kind in `OrderTracker.impossible`, the first few are kept with stream and seq in
`OrderTracker.examples`, and the order keeps the state it had.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...journal.format import OrderAction, ReportStatus
from .exec_ids import ExecIds
from .instruments import Instrument, unknown_instrument
from .orders import Order, OrderStatus

__all__ = ["FILL_FIELDS", "IMPOSSIBLE_KINDS", "INPUT_FIELDS", "REPORT_FIELDS", "OrderTracker"]

# Comparing plain ints costs half of comparing enum members, and these run per frame.
_NEW: Final = int(OrderAction.NEW)
_REPLACE: Final = int(OrderAction.REPLACE)
_CANCEL: Final = int(OrderAction.CANCEL)
_ACCEPTED: Final = int(ReportStatus.ACCEPTED)
_REJECTED: Final = int(ReportStatus.REJECTED)
_REPLACED: Final = int(ReportStatus.REPLACED)
_CANCELLED: Final = int(ReportStatus.CANCELLED)

IMPOSSIBLE_KINDS: Final = (
    "fill_without_order",
    "fill_after_done",
    "overfill",
    "repeated_exec_id",
    "exec_id_zero",
    "bad_fill",
    "wrong_instrument_or_side",
    "filled_mismatch",
    "report_without_order",
    "answer_without_request",
    "illegal_transition",
    "request_without_order",
    "repeated_order_id",
)
_EXAMPLES_MAX: Final = 20

# The fields of a frame that on_input, on_report and on_fill take, in their order.
_PLACE: Final = ("stream_id", "seq", "order_id")
INPUT_FIELDS: Final = (
    *_PLACE,
    *("instrument_id", "action", "side", "order_type", "time_in_force", "price", "quantity", "request_id"),
)
REPORT_FIELDS: Final = (
    *_PLACE,
    *("instrument_id", "status", "side", "reason", "price", "quantity", "filled", "request_id", "action"),
)
FILL_FIELDS: Final = (
    *_PLACE,
    *("exec_id", "instrument_id", "side", "price", "quantity", "filled", "fee"),
)


class OrderTracker:
    """All orders of some strategies, from their inputs, the venue's reports and its fills.

    `orders` holds the live ones by id. Of the finished ones the last `keep_done` stay in `done` (None: all,
    0: none), so that a day of orders does not stay in the memory of a running process. A late answer to a
    request that crossed the end of its order is still recognised.
    """

    def __init__(self, instruments: Mapping[int, Instrument], keep_done: int | None = 0) -> None:
        self.instruments: dict[int, Instrument] = dict(instruments)
        self.orders: dict[int, Order] = {}
        self.done: deque[Order] = deque(maxlen=keep_done)
        self.impossible: dict[str, int] = dict.fromkeys(IMPOSSIBLE_KINDS, 0)
        self.examples: list[dict[str, Any]] = []
        self._newest: dict[int, int] = {}  # strategy stream -> its highest order id
        self._late: dict[tuple[int, int], Order | None] = {}  # (order id, request id) sent to a done order
        self._exec_ids: dict[int, ExecIds] = {}

    # -- what happened ---------------------------------------------------------------------------

    def add(self, order: Order) -> None:
        """Take in an order that has just been sent (or refused locally, when it is not open)."""
        self._newest[order.order_id >> 48] = order.order_id
        if order.is_open:
            self.orders[order.order_id] = order
        else:
            self.done.append(order)

    def on_input(
        self,
        stream_id: int,
        seq: int,
        order_id: int,
        instrument_id: int,
        action: int,
        side: int,
        order_type: int,
        time_in_force: int,
        price: int,
        quantity: int,
        request_id: int,
    ) -> Order | None:
        """A strategy sent a request. Returns the order it is about, None when there is none."""
        if action == _NEW:
            if order_id <= self._newest.get(order_id >> 48, 0):
                self._count("repeated_order_id", stream_id, seq, order_id)
                return None
            order = Order(
                order_id,
                self.instrument(instrument_id),
                side,
                price,
                quantity,
                order_type,
                time_in_force,
                request_id,
            )
            self.add(order)
            return order
        known = self.orders.get(order_id)
        if known is None:
            if self._is_unknown(order_id):
                self._count("request_without_order", stream_id, seq, order_id)
            else:
                # The order ended while the request was under way: legal, the venue will reject it.
                self._late[order_id, request_id] = None
            return None
        self.request(known, action, price, quantity, request_id)
        return known

    def request(self, order: Order, action: int, price: int, quantity: int, request_id: int) -> None:
        """A replace or cancel of a live order was sent."""
        if order.pending is None:
            order.pending = {}
        order.pending[request_id] = (action, price, quantity)
        order.refresh()

    def on_report(
        self,
        stream_id: int,
        seq: int,
        order_id: int,
        instrument_id: int,
        status: int,
        side: int,
        reason: int,
        price: int,
        quantity: int,
        filled: int,
        request_id: int,
        action: int,
    ) -> Order | None:
        """An answer about an order. Returns the order it is about, None when there is none."""
        order = self.orders.get(order_id)
        if order is None:
            return self._report_without_live_order(
                stream_id,
                seq,
                order_id,
                instrument_id,
                status,
                side,
                reason,
                price,
                quantity,
                request_id,
                action,
            )
        if order.instrument.id != instrument_id or order.side != side:
            self._count("wrong_instrument_or_side", stream_id, seq, order_id)
        if filled != order.filled:
            self._count("filled_mismatch", stream_id, seq, order_id)
        if status == _ACCEPTED:
            if order.seen_by_venue:
                self._count("illegal_transition", stream_id, seq, order_id)
                return order
            order.seen_by_venue = True
            order.refresh()
        elif status == _REJECTED:
            self._rejected(order, stream_id, seq, reason, request_id, action)
        elif status == _REPLACED:
            if not order.pending or order.pending.pop(request_id, (0, 0, 0))[0] != _REPLACE:
                self._count("answer_without_request", stream_id, seq, order_id)
            order.price = price
            order.quantity = quantity
            order.leaves = quantity - order.filled
            if order.leaves > 0:
                order.refresh()
            else:
                # Nothing is left to trade: the order is complete with what it has.
                order.quantity = order.filled
                self._finish(order, OrderStatus.FILLED if order.filled else OrderStatus.CANCELLED)
        else:
            if order.pending:
                order.pending.pop(request_id, None)
            order.reason = reason
            self._finish(order, OrderStatus.CANCELLED if status == _CANCELLED else OrderStatus.EXPIRED)
        return order

    def on_fill(
        self,
        stream_id: int,
        seq: int,
        order_id: int,
        exec_id: int,
        instrument_id: int,
        side: int,
        price: int,
        quantity: int,
        filled: int,
        fee: int,
    ) -> tuple[Order | None, bool]:
        """An execution. Returns its order (None: unknown or done) and whether it changes the position.

        Only a repeated execution id and a fill without a positive price and quantity leave the position
        alone. Whatever else is wrong with a fill, the venue says that we traded, and a position that
        hides a trade is the worse error.
        """
        if price <= 0 or quantity <= 0:
            self._count("bad_fill", stream_id, seq, order_id)
            return self.orders.get(order_id), False
        if exec_id == 0:
            self._count("exec_id_zero", stream_id, seq, order_id)
        else:
            seen = self._exec_ids.get(stream_id)
            if seen is None:
                seen = self._exec_ids[stream_id] = ExecIds()
            if not seen.is_new(exec_id):
                self._count("repeated_exec_id", stream_id, seq, order_id)
                return self.orders.get(order_id), False
        order = self.orders.get(order_id)
        if order is None:
            kind = "fill_without_order" if self._is_unknown(order_id) else "fill_after_done"
            self._count(kind, stream_id, seq, order_id)
            return None, True
        if order.instrument.id != instrument_id or order.side != side:
            self._count("wrong_instrument_or_side", stream_id, seq, order_id)
        if not order.seen_by_venue:
            self._count("illegal_transition", stream_id, seq, order_id)
        order.filled += quantity
        order.leaves -= quantity
        order.notional += price * quantity
        order.fees += fee
        order.fills += 1
        if filled != order.filled:
            self._count("filled_mismatch", stream_id, seq, order_id)
        if order.leaves > 0:
            order.refresh()
        else:
            if order.leaves < 0:
                self._count("overfill", stream_id, seq, order_id)
            self._finish(order, OrderStatus.FILLED)
        return order, True

    # -- what there is ---------------------------------------------------------------------------

    def instrument(self, instrument_id: int) -> Instrument:
        """The instrument of that id; one that the run does not know gets a placeholder."""
        known = self.instruments.get(instrument_id)
        if known is None:
            known = self.instruments[instrument_id] = unknown_instrument(instrument_id)
        return known

    def open_orders(self, instrument_id: int | None = None) -> Iterator[Order]:
        """Live orders, oldest first."""
        for order in self.orders.values():
            if instrument_id is None or order.instrument.id == instrument_id:
                yield order

    @property
    def impossible_total(self) -> int:
        return sum(self.impossible.values())

    # -- inside ----------------------------------------------------------------------------------

    def _is_unknown(self, order_id: int) -> bool:
        # Ids of a strategy only grow, so one that is not above its newest has been there.
        return order_id > self._newest.get(order_id >> 48, 0)

    def _rejected(
        self, order: Order, stream_id: int, seq: int, reason: int, request_id: int, action: int
    ) -> None:
        if action in (_REPLACE, _CANCEL):
            if order.pending is not None and order.pending.pop(request_id, None) is not None:
                order.reason = reason
                order.refresh()
            elif stream_id != order.order_id >> 48:
                self._count("answer_without_request", stream_id, seq, order.order_id)
            # else: the strategy's own process refused the request before it became one.
        elif order.seen_by_venue or order.filled:
            self._count("illegal_transition", stream_id, seq, order.order_id)
        else:
            order.reason = reason
            self._finish(order, OrderStatus.REJECTED)

    def _report_without_live_order(
        self,
        stream_id: int,
        seq: int,
        order_id: int,
        instrument_id: int,
        status: int,
        side: int,
        reason: int,
        price: int,
        quantity: int,
        request_id: int,
        action: int,
    ) -> Order | None:
        key = (order_id, request_id)
        if status == _REJECTED and key in self._late:
            return self._late.pop(key)
        own = stream_id == order_id >> 48
        if not self._is_unknown(order_id):
            if not (own and status == _REJECTED and action in (_REPLACE, _CANCEL)):
                self._count("illegal_transition", stream_id, seq, order_id)
            return None
        if own and status == _REJECTED:
            # Refused inside the strategy's process (throttle, limit, off tick): there never was an input.
            order = Order(order_id, self.instrument(instrument_id), side, price, quantity, 0, 0, request_id)
            order.reason = reason
            order.end(OrderStatus.REJECTED)
            self.add(order)
            return order
        self._count("report_without_order", stream_id, seq, order_id)
        return None

    def _finish(self, order: Order, status: OrderStatus) -> None:
        order.end(status)
        if order.pending:
            for request_id in order.pending:
                self._late[order.order_id, request_id] = order
            order.pending = None
        del self.orders[order.order_id]
        self.done.append(order)

    def _count(self, kind: str, stream_id: int, seq: int, order_id: int) -> None:
        self.impossible[kind] += 1
        if len(self.examples) < _EXAMPLES_MAX:
            self.examples.append({"kind": kind, "stream_id": stream_id, "seq": seq, "order_id": order_id})
