"""The trade gateway: orders and market data in, a venue's answers out."""

from __future__ import annotations

from .. import _native
from ..runtime.child import ChildContext
from ..runtime.config import TradeGatewayConfig
from ..runtime.native import live_reader, loop_context, native_instruments


class TradeGatewayProcess:
    """A simulated venue behind the gateway's native loop."""

    def __init__(self, context: ChildContext, config: TradeGatewayConfig) -> None:
        self._context = context
        self._venue = _native.SimulatedVenue(native_instruments(context), config.max_open_orders)
        self._reader: _native.LiveReader | None = None

    def join(self) -> None:
        """Open the streams of the market data and of every strategy."""
        self._reader = live_reader(self._context, "market_data", "strategy")

    def run(self) -> None:
        """Answer orders until asked to stop."""
        context = self._context
        assert self._reader is not None
        strategies = [
            (context.processes[stream.process].slot, stream.id) for stream in context.streams_of("strategy")
        ]
        _native.run_gateway(
            loop_context(context),
            self._reader,
            context.writer,
            context.consumed_writer,
            self._venue,
            strategies,
        )

    def close(self) -> None:
        """Let go of the readers."""
        self._reader = None


def create(context: ChildContext) -> TradeGatewayProcess:
    """Build the trade gateway of a run."""
    assert isinstance(context.config, TradeGatewayConfig)
    return TradeGatewayProcess(context, context.config)
