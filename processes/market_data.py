"""The market data process: a synthetic feed, or a recording, into the run's first stream."""

from __future__ import annotations

import time

import msgspec

from .. import _native
from ..runtime.child import ChildContext, RoleProcess
from ..runtime.config import BinanceFeedConfig, SyntheticFeedConfig
from ..runtime.errors import TapewireError
from ..runtime.manifest import write_atomically
from ..runtime.market.binance import BinanceRecording
from ..runtime.market.pace import Pacer
from ..runtime.market.replay_recording import play
from ..runtime.native import lockstep, loop_context, native_instruments
from ..runtime.rundir import RunDir
from ..runtime.units import PRICE_EXPONENT, to_units

__all__ = ["create"]


def create(context: ChildContext) -> RoleProcess:
    """Build the feed that the topology names; raises `InputError` for a recording that cannot be opened."""
    config = context.config
    if isinstance(config, BinanceFeedConfig):
        return _RecordedFeed(context, config)
    assert isinstance(config, SyntheticFeedConfig)
    return _SyntheticFeed(context, config)


class _SyntheticFeed:
    """Depth from a seeded random walk, all of it native."""

    def __init__(self, context: ChildContext, config: SyntheticFeedConfig) -> None:
        factor = config.speed_factor
        clock = context.manifest.clock
        self._context = context
        self._config = config
        self._feed = _native.SyntheticFeed(
            native_instruments(context),
            events=config.events,
            interval_ns=round(config.interval_us * 1_000 / (factor or 1.0)),
            poisson=config.arrivals == "poisson",
            paced=factor is not None,
            seed=config.seed,
            linger_ns=config.linger_us * 1_000,
            spin_window_ns=config.spin_window_us * 1_000,
            start_price=to_units(config.start_price, PRICE_EXPONENT, what="start_price"),
            spread_ticks=config.spread_ticks,
            realtime_offset_ns=clock.realtime_ns - clock.monotonic_ns,
        )

    def join(self) -> None:
        """A feed reads no stream."""

    def run(self) -> None:
        context, config = self._context, self._config
        loop = loop_context(context)
        wait = lockstep(context, loop) if config.pace == "lockstep" else None
        published = self._feed.run(loop, context.writer, wait)
        if config.events and published == config.events:
            _native.MarketPublisher(context.writer, context.block).end_of_input()
        context.log.info("feed ended", events=published)

    def close(self) -> None:
        """Nothing was opened."""


class _RecordedFeed:
    """A Binance recording; what became of its lines goes to the run directory's input.json."""

    def __init__(self, context: ChildContext, config: BinanceFeedConfig) -> None:
        self._context = context
        self._config = config
        self._recording = BinanceRecording(config.input, context.topology.instruments)

    def join(self) -> None:
        """A feed reads no stream."""

    def run(self) -> None:
        context, config = self._context, self._config
        publisher = _native.MarketPublisher(context.writer, context.block)
        loop = loop_context(context)

        def beat() -> None:
            context.block.set("heartbeat_ns", time.monotonic_ns())

        pacer = Pacer(config.speed_factor, should_stop=lambda: loop.stop_requested, while_waiting=beat)
        wait = lockstep(context, loop) if config.pace == "lockstep" else None
        accounting = self._recording.accounting
        try:
            if play(self._recording, publisher, pacer, wait, beat=beat):
                publisher.end_of_input(accounting.last_receive_time)
        except TapewireError as error:
            accounting.error = str(error)
            context.block.add("errors")
            raise
        finally:
            context.block.set("late", pacer.late)
            self._recording.settle()
            write_atomically(
                RunDir(context.run_dir).input_path,
                msgspec.json.format(msgspec.json.encode(accounting), indent=2),
            )
        context.log.info(
            "recording ended",
            lines=accounting.lines,
            published=accounting.published,
            skipped=accounting.skipped,
        )

    def close(self) -> None:
        self._recording.close()
