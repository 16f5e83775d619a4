"""Between the native loop and a user's strategy: the handler that loop calls, one method per event type.

Each takes the event object of a frame, brings the strategy's orders and positions up to date, and calls the
user's method. Where the user did not override a method there is nothing to call, and the loop need not even
make the event object. What a user's method raises is turned into `StrategyFailed`, which names the frame.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from .errors import TapewireError
from .order_desk import OrderDesk
from .strategy import Strategy

if TYPE_CHECKING:
    from .._native import BookTicker, Depth, Fill, OrderReport, Timer, Trade

__all__ = ["StrategyFailed", "StrategyHost"]

Handler = Callable[[Any], None]


class StrategyFailed(TapewireError):
    """An exception left a method of the user's strategy; the process ends, `on_exit` says what then.

    `method` is the strategy's method, `stream_id`, `seq` and `frame_type` name the frame it was handling
    (None for on_start and on_stop).
    """

    def __init__(
        self,
        method: str,
        error: BaseException,
        *,
        stream: str = "",
        stream_id: int | None = None,
        seq: int | None = None,
        frame_type: str | None = None,
    ) -> None:
        self.method = method
        self.stream_id = stream_id
        self.seq = seq
        self.frame_type = frame_type
        frame = f" at {frame_type} frame {seq} of stream {stream or stream_id}" if frame_type else ""
        super().__init__(f"{_place(error)}{_text(error)} in {method}{frame}")


class StrategyHost:
    """Runs one strategy object: the handler of `_native.StrategyLoop`.

    `on_depth`, `on_ticker`, `on_trade`, `on_report`, `on_fill` and `on_timer` take the event object of a
    frame; they are None where the strategy has no use for it. `on_start` and `on_stop` take nothing.
    `streams` gives the names of stream ids, for messages.
    """

    def __init__(
        self,
        strategy: Strategy,
        params: msgspec.Struct,
        desk: OrderDesk,
        *,
        log: Callable[[str], None],
        streams: Mapping[int, str] | None = None,
    ) -> None:
        self.strategy = strategy
        self.desk = desk
        self._streams = dict(streams or {})
        strategy.attach(desk, params, log)
        self.on_report: Handler = self._report_handler()
        self.on_fill: Handler = self._fill_handler()
        self.on_depth: Handler = self._depth_handler()
        self.on_timer: Handler | None = self._plain_handler("on_timer", "timer")
        self.on_trade: Handler | None = self._plain_handler("on_trade", "trade")
        self.on_ticker: Handler | None = self._plain_handler("on_ticker", "book_ticker")

    # BaseException: a strategy may call sys.exit, and its frame is wanted all the same.

    def on_start(self) -> None:
        """The run begins."""
        try:
            self.strategy.on_start()
        except BaseException as error:
            raise StrategyFailed("on_start", error) from error

    def on_stop(self) -> None:
        """The run ends in good order."""
        try:
            self.strategy.on_stop()
        except BaseException as error:
            raise StrategyFailed("on_stop", error) from error

    # Closures rather than methods: what they need is in cells, not looked up per event.

    def _depth_handler(self) -> Handler:
        desk, remember, failed = self.desk, self.desk.on_depth, self._failed
        if not self._overrides("on_depth"):
            return remember
        call = self.strategy.on_depth

        def on_depth(depth: Depth) -> None:
            desk.depth = depth
            try:
                call(depth)
            except BaseException as error:
                raise failed("on_depth", "depth", depth, error) from error
            remember(depth)

        return on_depth

    def _plain_handler(self, method: str, frame_type: str) -> Handler | None:
        """For events that change no order and no position."""
        if not self._overrides(method):
            return None
        call, failed = getattr(self.strategy, method), self._failed

        def handle(event: Trade | BookTicker | Timer) -> None:
            try:
                call(event)
            except BaseException as error:
                raise failed(method, frame_type, event, error) from error

        return handle

    def _report_handler(self) -> Handler:
        take, call, failed = self.desk.on_report, self.strategy.on_order, self._failed
        stream_id = self.desk.stream_id

        def on_report(report: OrderReport) -> None:
            if report.order_id >> 48 != stream_id:
                return  # another strategy's order at the same venue
            order = take(report)
            if order is None:
                return  # impossible, and counted as such
            try:
                call(order, report)
            except BaseException as error:
                raise failed("on_order", "order_report", report, error) from error

        return on_report

    def _fill_handler(self) -> Handler:
        take, call, failed = self.desk.on_fill, self.strategy.on_fill, self._failed
        stream_id = self.desk.stream_id

        def on_fill(fill: Fill) -> None:
            if fill.order_id >> 48 != stream_id:
                return
            order = take(fill)
            if order is None:
                return
            try:
                call(order, fill)
            except BaseException as error:
                raise failed("on_fill", "fill", fill, error) from error

        return on_fill

    def _overrides(self, method: str) -> bool:
        return getattr(type(self.strategy), method) is not getattr(Strategy, method)

    def _failed(self, method: str, frame_type: str, event: Any, error: BaseException) -> StrategyFailed:
        return StrategyFailed(
            method,
            error,
            stream=self._streams.get(event.stream_id, ""),
            stream_id=event.stream_id,
            seq=event.seq,
            frame_type=frame_type,
        )


def _place(error: BaseException) -> str:
    """File and line in the user's code, the outermost frame below our call; empty where there is none, as
    for a method that takes other arguments."""
    entries = traceback.extract_tb(error.__traceback__)[1:2]
    return "".join(f"{entry.filename}: line {entry.lineno}: " for entry in entries)


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(an exception whose text cannot be made)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
