"""The ledger: what all streams of a run say about orders, positions and money.

One `Ledger` is used in two ways. The ledger process feeds it batches while the run is live; `rebuild`
feeds it the whole journal of any run, finished, running or crashed. Both give the same figures: of the order
of frames it needs only that within a stream, and causes before what they caused, which the live readers and
the journal's readers both promise.

Depth moves marks only, so of a batch only the last touch of each instrument is looked at.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from ...journal import Batch, Frame, decode
from ...journal.format import FrameType, OrderAction, Reason, ReportStatus, Side
from ..units import INT64_MAX
from .instruments import InstrumentTable
from .order_tracker import FILL_FIELDS, INPUT_FIELDS, REPORT_FIELDS, OrderTracker
from .orders import OrderStatus
from .positions import Position

if TYPE_CHECKING:
    from ..._native import Fill, OrderInput, OrderReport

__all__ = ["LEDGER_TYPES", "Ledger", "Tally"]

_DEPTH: Final = int(FrameType.DEPTH)
_INPUT: Final = int(FrameType.ORDER_INPUT)
_REPORT: Final = int(FrameType.ORDER_REPORT)
_FILL: Final = int(FrameType.FILL)
_NEW: Final = int(OrderAction.NEW)
_REJECTED: Final = int(ReportStatus.REJECTED)
_REPLACED: Final = int(ReportStatus.REPLACED)
_BUY: Final = int(Side.BUY)

LEDGER_TYPES: Final = ("depth", "order_input", "order_report", "fill")

_FIELDS: Final = {_INPUT: INPUT_FIELDS, _REPORT: REPORT_FIELDS, _FILL: FILL_FIELDS}
_INPUT_VALUES: Final = attrgetter(*INPUT_FIELDS)
_REPORT_VALUES: Final = attrgetter(*REPORT_FIELDS)
_FILL_VALUES: Final = attrgetter(*FILL_FIELDS)
_NAMES: Final = {_INPUT: "order_input", _REPORT: "order_report", _FILL: "fill"}

_Row = tuple[int, ...]


class Tally:
    """Counts of one strategy in one instrument. Quantities are ints of 10^-quantity_exponent."""

    __slots__ = (
        "bought",
        "cancelled",
        "expired",
        "fills",
        "orders",
        "refused",
        "rejected",
        "replaced",
        "requests_refused",
        "requests_rejected",
        "sold",
    )

    def __init__(self) -> None:
        self.orders = 0  # sent to the venue
        self.refused = 0  # new orders that the strategy's own process stopped
        self.rejected = 0  # new orders that the venue refused
        self.requests_refused = 0  # replaces and cancels stopped by the strategy's own process
        self.requests_rejected = 0  # replaces and cancels that the venue refused
        self.replaced = 0
        self.cancelled = 0
        self.expired = 0
        self.fills = 0
        self.bought = 0
        self.sold = 0

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


class Ledger:
    """Orders, positions and counts of a run.

    `keep_done`: how many finished orders to keep (None: all).
    """

    def __init__(self, instruments: InstrumentTable, *, keep_done: int | None = 0) -> None:
        self.instruments = instruments
        self.tracker = OrderTracker(instruments.by_id, keep_done)
        self.positions: dict[tuple[int, int], Position] = {}
        self.tallies: dict[tuple[int, int], Tally] = {}
        self.reasons: dict[int, int] = {}  # of every refusal, whoever refused
        self.frames = 0
        self.depths = 0
        self._touch: dict[int, tuple[int, int]] = {}
        self._written: dict[tuple[int, int], tuple[int, ...]] = {}

    # -- taking frames in ------------------------------------------------------------------------

    def apply(self, frame: Frame) -> None:
        """Take in one frame of any type."""
        self.frames += 1
        kind = frame.type
        if kind == _DEPTH:
            values = decode(frame)
            self.depths += 1
            if values["bids"] and values["asks"]:
                self.on_touch(values["instrument_id"], values["bids"][0][0], values["asks"][0][0])
        elif kind in _FIELDS:
            values = decode(frame)
            rest = (values[name] for name in _FIELDS[kind][2:])
            self._apply_row(kind, (frame.stream_id, frame.seq, *rest))

    def apply_batch(self, batch: Batch, until_ns: int = INT64_MAX) -> None:
        """Take in a batch of frames, in its order; of those, what was written by `until_ns` (gen_time)."""
        headers = batch.headers[batch.headers["gen_time"] <= until_ns]
        self.frames += len(headers)
        self._apply_depths(batch, until_ns)
        kinds = headers["type"]
        kinds = kinds[(kinds >= _INPUT) & (kinds <= _FILL)].tolist()
        if not kinds:
            return
        rows = {}
        for kind, name in _NAMES.items():
            chosen = batch.rows(name)
            chosen = chosen[chosen["gen_time"] <= until_ns]
            rows[kind] = iter(chosen[list(_FIELDS[kind])].tolist())
        for kind in kinds:
            self._apply_row(kind, next(rows[kind]))

    def on_order_input(self, event: OrderInput) -> None:
        """A request of a strategy."""
        self.frames += 1
        self._apply_row(_INPUT, _INPUT_VALUES(event))

    def on_report(self, event: OrderReport) -> None:
        """An answer of a venue, or a refusal by a strategy's own process."""
        self.frames += 1
        self._apply_row(_REPORT, _REPORT_VALUES(event))

    def on_fill(self, event: Fill) -> None:
        """An execution."""
        self.frames += 1
        self._apply_row(_FILL, _FILL_VALUES(event))

    def on_touch(self, instrument_id: int, bid: int, ask: int) -> None:
        """The best prices of an instrument (0: that side is empty); marks every position in it."""
        if bid <= 0 or ask <= 0:
            return
        self._touch[instrument_id] = (bid, ask)
        for (_, instrument), position in self.positions.items():
            if instrument == instrument_id:
                position.mark(bid, ask)

    # -- what there is ---------------------------------------------------------------------------

    def position(self, strategy_stream: int, instrument_id: int) -> Position:
        """The position of a strategy in an instrument, a flat one if it never traded there."""
        key = (strategy_stream, instrument_id)
        position = self.positions.get(key)
        if position is None:
            # Not kept: only a fill makes a position one that is written and shown.
            position = Position(strategy_stream, self.tracker.instrument(instrument_id))
            position.mark(*self._touch.get(instrument_id, (0, 0)))
        return position

    def changed(self) -> list[Position]:
        """Positions whose frame would differ from what `written` was last told, in a fixed order.

        A flat position is not changed by its mark.
        """
        return [
            self.positions[key]
            for key in sorted(self.positions)
            if self._written.get(key) != _worth_writing(self.positions[key])
        ]

    def written(self, position: Position) -> None:
        """This position, as it is now, has been written (or could not be, and shall not be tried again)."""
        key = (position.strategy_stream, position.instrument.id)
        self._written[key] = _worth_writing(position)

    def snapshot(self) -> dict[str, Any]:
        """Everything but the orders themselves, for JSON; decimals as text, counts as ints."""
        rows = []
        for stream, instrument in sorted(self.positions.keys() | self.tallies.keys()):
            counts = self.tallies.get((stream, instrument), Tally()).as_dict()
            shown = self.tracker.instrument(instrument)
            counts_shown: dict[str, Any] = dict(counts)
            for side in ("bought", "sold"):
                counts_shown[side] = shown.format_quantity(counts[side])
            rows.append({**self.position(stream, instrument).as_dict(), "counts": counts_shown})
        return {
            "frames": self.frames,
            "depths": self.depths,
            "orders": sum(tally.orders for tally in self.tallies.values()),
            "open_orders": len(self.tracker.orders),
            "fills": sum(tally.fills for tally in self.tallies.values()),
            "positions": rows,
            "reasons": {Reason(reason).name.lower(): count for reason, count in sorted(self.reasons.items())},
            "impossible": dict(self.tracker.impossible),
            "impossible_examples": list(self.tracker.examples),
        }

    # -- inside ----------------------------------------------------------------------------------

    def _apply_depths(self, batch: Batch, until_ns: int) -> None:
        import numpy as np

        rows = batch.rows("depth")
        rows = rows[rows["gen_time"] <= until_ns]
        if len(rows) == 0:
            return
        self.depths += len(rows)
        ids = rows["instrument_id"]
        two_sided = (rows["bid_count"] > 0) & (rows["ask_count"] > 0)
        for instrument_id in np.unique(ids).tolist():
            found = np.flatnonzero(two_sided & (ids == instrument_id))
            if len(found):
                row = rows[found[-1]]
                self.on_touch(instrument_id, int(row["bids"][0, 0]), int(row["asks"][0, 0]))

    def _apply_row(self, kind: int, row: _Row) -> None:
        if kind == _INPUT:
            order = self.tracker.on_input(*row)
            if order is not None and row[4] == _NEW:
                self._tally(order.order_id, order.instrument.id).orders += 1
        elif kind == _FILL:
            self._fill(row)
        else:
            self._report(row)

    def _fill(self, row: _Row) -> None:
        _, _, order_id, _, instrument_id, side, price, quantity, _, fee = row
        _, counts = self.tracker.on_fill(*row)
        if not counts:
            return
        position = self.position(order_id >> 48, instrument_id)
        position.on_fill(side, price, quantity, fee)
        self.positions[position.strategy_stream, instrument_id] = position
        tally = self._tally(order_id, instrument_id)
        tally.fills += 1
        if side == _BUY:
            tally.bought += quantity
        else:
            tally.sold += quantity

    def _report(self, row: _Row) -> None:
        stream, _, order_id, instrument_id, status, _, reason, _, _, _, _, action = row
        before = self.tracker.orders.get(order_id)
        order = self.tracker.on_report(*row)
        tally = self._tally(order_id, instrument_id)
        if status == _REJECTED:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
            own = stream == order_id >> 48
            if action in (0, _NEW):
                tally.refused += own
                tally.rejected += not own
            else:
                tally.requests_refused += own
                tally.requests_rejected += not own
        elif status == _REPLACED:
            tally.replaced += 1
        elif before is not None and order is before and not order.is_open:
            tally.cancelled += order.status is OrderStatus.CANCELLED
            tally.expired += order.status is OrderStatus.EXPIRED

    def _tally(self, order_id: int, instrument_id: int) -> Tally:
        key = (order_id >> 48, instrument_id)
        tally = self.tallies.get(key)
        if tally is None:
            tally = self.tallies[key] = Tally()
        return tally


def _worth_writing(position: Position) -> tuple[int, ...]:
    """What decides whether a position is written again."""
    values = position.values()
    if position.quantity == 0:
        values["mark_price"] = 0
    return tuple(values.values())
