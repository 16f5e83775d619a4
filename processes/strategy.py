"""The strategy process: a user's Python strategy, or a native one, on the native loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import _native
from ..runtime.child import ChildContext, RoleProcess
from ..runtime.config import NATIVE_STRATEGIES, AlternatingParams, BinanceFeedConfig, StrategyConfig
from ..runtime.errors import ConfigError, OrderError
from ..runtime.market.instruments import Instrument, InstrumentTable
from ..runtime.native import live_reader, loop_context, native_instruments
from ..runtime.order_desk import OrderDesk
from ..runtime.order_line import position_limit
from ..runtime.strategy_host import StrategyHost
from ..runtime.strategy_loader import load_strategy
from ..runtime.units import INT64_MAX
from ..runtime.validate import convert_table

__all__ = ["create"]

_READS = ("market_data", "trade_gateway")


def create(context: ChildContext) -> RoleProcess:
    """Load the strategy and its parameters; raises `ConfigError` where one does not fit."""
    config = context.config
    assert isinstance(config, StrategyConfig)
    if config.is_native:
        return _NativeStrategy(context, config)
    return _PythonStrategy(context, config)


class _PythonStrategy:
    """A user's `Strategy`."""

    def __init__(self, context: ChildContext, config: StrategyConfig) -> None:
        self._context = context
        self._config = config
        self._strategy, self._params = load_strategy(
            config.strategy,
            config.params,
            where=context.topology.source,
            key=f"processes.{context.name}",
        )
        self._loop: _native.StrategyLoop | None = None
        self._host: StrategyHost | None = None

    def join(self) -> None:
        context = self._context
        loop = _native.StrategyLoop(
            loop_context(context),
            live_reader(context, *_READS),
            context.writer,
            context.consumed_writer,
            native_instruments(context),
            event_time=isinstance(context.topology.feed, BinanceFeedConfig),
        )

        def log(message: str) -> None:
            loop.text(message)
            context.log.info(message, now_ns=loop.now_ns())

        desk = OrderDesk(
            loop,
            InstrumentTable(context.topology.instruments),
            context.process.stream_id,
            throttle_per_s=self._config.throttle_per_s,
            max_position=self._config.max_position,
        )
        streams = {stream.id: stream.name for stream in context.topology.streams()}
        self._host = StrategyHost(self._strategy, self._params, desk, log=log, streams=streams)
        self._loop = loop

    def run(self) -> None:
        assert self._loop is not None
        assert self._host is not None
        self._loop.run(self._host)
        self._context.log.info("strategy stopped", **self._host.desk.summary())

    def close(self) -> None:
        self._loop = self._host = None


class _NativeStrategy:
    """One of the strategies built into the extension module."""

    def __init__(self, context: ChildContext, config: StrategyConfig) -> None:
        self._context = context
        self._config = config
        where, key = context.topology.source, f"processes.{context.name}"
        kind = NATIVE_STRATEGIES.get(config.strategy.removeprefix("native:"))
        if kind is not AlternatingParams:
            known = ", ".join(f'"native:{one}"' for one in NATIVE_STRATEGIES)
            raise ConfigError(
                f"no strategy {config.strategy!r}", where=where, key=f"{key}.strategy", hint=known
            )
        params = AlternatingParams(**convert_table(kind, config.params, where=where, path=f"{key}.params"))
        instruments = context.topology.instruments
        self._arguments: dict[str, Any] = {
            "every": params.every,
            "lots": _same(
                instruments, lambda one: _lots(params.quantity, one), where, f"{key}.params.quantity"
            ),
            "throttle_per_s": config.throttle_per_s,
            "max_position": _same(
                instruments, lambda one: _limit(config.max_position, one), where, f"{key}.max_position"
            ),
        }
        self._reader: _native.LiveReader | None = None

    def join(self) -> None:
        self._reader = live_reader(self._context, *_READS)

    def run(self) -> None:
        context = self._context
        assert self._reader is not None
        _native.run_alternating(
            loop_context(context),
            self._reader,
            context.writer,
            context.consumed_writer,
            native_instruments(context),
            **self._arguments,
        )

    def close(self) -> None:
        self._reader = None


def _lots(quantity: str, instrument: Instrument) -> int:
    """An order quantity in whole lots; 0 is one lot."""
    return instrument.parse_quantity(quantity) // instrument.lot or 1


def _limit(max_position: str, instrument: Instrument) -> int:
    """As the native strategies take it: 0 is no limit."""
    limit = position_limit(max_position, instrument)
    return 0 if limit == INT64_MAX else limit


def _same(
    instruments: Iterable[Instrument], number: Callable[[Instrument], int], where: str, key: str
) -> int:
    """The one number that a native strategy uses for every instrument."""
    try:
        numbers = {number(instrument) for instrument in instruments}
    except OrderError as error:
        raise ConfigError(str(error), where=where, key=key) from None
    if len(numbers) != 1:
        raise ConfigError(
            "comes to different numbers of units in the instruments of this run",
            where=where,
            key=key,
            hint="give them the same lot and quantity_exponent, or use a Python strategy",
        )
    return numbers.pop()
