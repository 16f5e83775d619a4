"""The ledger process: reads all streams, keeps orders and positions, writes positions when they change."""

from __future__ import annotations

from .. import _native
from ..journal.format import FrameType
from ..runtime.child import ChildContext, RoleProcess
from ..runtime.errors import OutOfRange
from ..runtime.market.instruments import InstrumentTable
from ..runtime.market.ledger import Ledger
from ..runtime.native import live_reader, loop_context, native_instruments

__all__ = ["create"]

_POSITION = int(FrameType.POSITION)


def create(context: ChildContext) -> RoleProcess:
    """The ledger of the run."""
    return _LedgerProcess(context)


class _LedgerProcess:
    """The handler of the native ledger loop, which keeps the consumption record and most counters."""

    def __init__(self, context: ChildContext) -> None:
        self._context = context
        self._ledger = Ledger(InstrumentTable(context.topology.instruments))
        self._impossible = 0
        self._loop: _native.LedgerLoop | None = None
        # What the loop calls per frame.
        self.on_order_input = self._ledger.on_order_input
        self.on_report = self._ledger.on_report
        self.on_fill = self._ledger.on_fill
        self.on_touch = self._ledger.on_touch

    def join(self) -> None:
        context = self._context
        self._loop = _native.LedgerLoop(
            loop_context(context),
            live_reader(context, "market_data", "strategy", "trade_gateway"),
            context.consumed_writer,
            native_instruments(context),
        )

    def run(self) -> None:
        assert self._loop is not None
        self._loop.run(self)
        ledger = self._ledger
        for position in ledger.positions.values():
            self._context.log.info("position", **position.as_dict())
        self._context.log.info(
            "ledger stopped",
            orders=sum(tally.orders for tally in ledger.tallies.values()),
            open_orders=len(ledger.tracker.orders),
            fills=sum(tally.fills for tally in ledger.tallies.values()),
            impossible={kind: count for kind, count in ledger.tracker.impossible.items() if count},
        )

    def on_batch(self) -> None:
        """A batch is through: write what changed."""
        context, ledger = self._context, self._ledger
        for position in ledger.changed():
            try:
                context.writer.append(_POSITION, position.frame_payload())
                context.block.add("frames_out")
            except OutOfRange as error:
                context.log.error("position not written", reason=str(error))
            ledger.written(position)
        context.block.set("open_orders", len(ledger.tracker.orders))
        impossible = ledger.tracker.impossible_total
        if impossible != self._impossible:
            context.block.set("errors", impossible)
            context.log.warning(
                "impossible frames",
                **{kind: count for kind, count in ledger.tracker.impossible.items() if count},
            )
            self._impossible = impossible

    def close(self) -> None:
        self._loop = None
