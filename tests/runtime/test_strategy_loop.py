"""A Python strategy on the native loop: real streams, causes, timers, failures. One process, one thread."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tapewire import Order, Strategy, _native
from tapewire.examples.alternating import Alternating
from tapewire.examples.spread_quoting import SpreadQuoting
from tapewire.journal import Journal, decode
from tapewire.journal.format import FrameType, LifecycleKind, ReportStatus, encode_payload
from tapewire.runtime.market.instruments import Instrument, InstrumentTable
from tapewire.runtime.order_desk import OrderDesk
from tapewire.runtime.strategy_host import StrategyFailed, StrategyHost

MD, VENUE, STREAM = 1, 2, 3
SIM = Instrument(id=1, symbol="SIM", tick=10_000_000, lot=1_000_000)
UNIT = 10**9
DRAIN = 1


class Stage:
    """The streams of a run in a directory; the strategy is run over what was written before."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.control = _native.Control.create(str(directory / "control"))
        self.counters = _native.Counters.create(str(directory / "counters"), ["md", "td", "strategy"])
        self.writers = {
            stream: _native.StreamWriter(
                str(directory / "journal"), name, stream, 1, 1, 1 << 20, control=self.control
            )
            for name, stream in (("md", MD), ("td", VENUE), ("strategy", STREAM))
        }

    def depth(self, bid: int, ask: int, time_ns: int = 0) -> int:
        payload = bytearray(
            encode_payload("depth", instrument_id=1, bid_count=1, ask_count=1, receive_time=time_ns)
        )
        payload[32:48] = bid.to_bytes(8, "little") + UNIT.to_bytes(8, "little")
        payload[192:208] = ask.to_bytes(8, "little") + UNIT.to_bytes(8, "little")
        return self.writers[MD].append(FrameType.DEPTH, payload)

    def run(self, strategy: Strategy, *, params: Any = None, event_time: bool = False) -> OrderDesk:
        """Until everything that is there has been read."""
        loop = _native.StrategyLoop(
            _native.LoopContext(self.control, self.counters, 2, "yield"),
            _native.LiveReader(str(self.directory / "journal"), ["md", "td"]),
            self.writers[STREAM],
            None,
            [_native.NativeInstrument(SIM.id, SIM.tick, SIM.lot)],
            event_time=event_time,
        )
        desk = OrderDesk(loop, InstrumentTable([SIM]), STREAM)
        host = StrategyHost(strategy, params or strategy.Params(), desk, log=loop.text, streams={MD: "md"})
        self.control.request_stop(2, DRAIN)
        loop.run(host)
        return desk

    def written(self) -> list[tuple[str, dict[str, Any], Any]]:
        """What the strategy wrote: type, fields, cause."""
        with Journal.open(self.directory).reader(["strategy"]) as reader:
            return [(FrameType(frame.type).name.lower(), decode(frame), frame.cause) for frame in reader]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    # Without a first page there is nothing to join.
    stage.writers[VENUE].append(FrameType.TEXT, b"open")
    yield stage
    for writer in stage.writers.values():
        writer.close()


def test_orders_name_the_depth_that_caused_them(stage: Stage) -> None:
    for step in range(10):
        stage.depth((100 + step) * UNIT, (101 + step) * UNIT)
    desk = stage.run(Alternating())
    frames = stage.written()
    assert [kind for kind, _, _ in frames] == ["lifecycle", "order_input", "order_input", "lifecycle", "text"]
    (_, bought, bought_by), (_, sold, sold_by) = frames[1:3]
    assert (bought["price"], bought["side"], bought["quantity"]) == (105 * UNIT, 1, SIM.lot)
    assert (sold["price"], sold["side"], sold["quantity"]) == (109 * UNIT, 2, SIM.lot)
    assert (bought_by, sold_by) == ((MD, 5), (MD, 10))
    assert bought["order_id"] == STREAM << 48 | 1
    assert desk.summary()["open_orders"] == 2
    assert stage.counters.block(2).get("orders") == 2


def test_reports_and_fills_come_back(stage: Stage) -> None:
    seen: list[tuple[str, str]] = []

    class Once(Strategy):
        def on_depth(self, depth: Any) -> None:
            if not self.open_orders():
                self.buy("SIM", depth.best_ask.price_decimal, "0.002")

        def on_order(self, order: Order, report: Any) -> None:
            seen.append(("order", order.status))

        def on_fill(self, order: Order, fill: Any) -> None:
            assert fill.quantity_decimal == Decimal("0.001")
            seen.append(("fill", order.status))

    first = stage.depth(100 * UNIT, 101 * UNIT)
    order = {"order_id": STREAM << 48 | 1, "instrument_id": 1, "side": 1, "price": 101 * UNIT}
    # The answer names its cause, so it is delivered after it, whichever stream is read first.
    stage.writers[VENUE].append(
        FrameType.ORDER_REPORT,
        encode_payload("order_report", **order, status=ReportStatus.ACCEPTED, action=1, request_id=1),
        (MD, first),
    )
    for exec_id in (1, 2):
        stage.writers[VENUE].append(
            FrameType.FILL,
            encode_payload("fill", **order, exec_id=exec_id, quantity=1_000_000, filled=exec_id * 1_000_000),
            (MD, first),
        )
    strategy = Once()
    desk = stage.run(strategy)
    assert seen == [("order", "new"), ("fill", "partially_filled"), ("fill", "filled")]
    assert strategy.position("SIM").quantity == 2_000_000
    assert desk.summary()["impossible"] == {}


def test_timers_follow_event_time(stage: Stage) -> None:
    fired: list[tuple[int, int, int]] = []

    class Timed(Strategy):
        def on_start(self) -> None:
            self.set_timer(at_ns=1_500)
            self.set_timer(at_ns=99_000)

        def on_timer(self, timer: Any) -> None:
            fired.append((timer.timer_id, timer.due_time, self.now_ns()))
            if timer.timer_id == 1:
                self.sell("SIM", 100 * UNIT, SIM.lot)
                self.set_timer(100)

    for time_ns in (1_000, 2_000, 3_000):
        stage.depth(100 * UNIT, 101 * UNIT, time_ns)
    stage.run(Timed(), event_time=True)
    assert fired == [(1, 1_500, 1_500), (3, 1_600, 1_600)]
    causes = {kind: cause for kind, _, cause in stage.written() if kind in ("order_input", "timer")}
    assert causes["order_input"] == (STREAM, 2)  # the timer's own frame


def test_a_failure_is_recorded_and_raised(stage: Stage) -> None:
    class Failing(Strategy):
        def on_depth(self, depth: Any) -> None:
            if depth.seq == 2:
                raise RuntimeError("no")

    for _ in range(3):
        stage.depth(100 * UNIT, 101 * UNIT)
    with pytest.raises(StrategyFailed, match="RuntimeError: no in on_depth at depth frame 2 of stream md"):
        stage.run(Failing())
    kind, values, cause = stage.written()[-1]
    assert (kind, values["kind"], cause) == ("lifecycle", LifecycleKind.FAILED, (MD, 2))


def test_spread_quoting_follows_the_touch_one_request_at_a_time(stage: Stage) -> None:
    for step in range(4):
        stage.depth((100 + step) * UNIT, (102 + step) * UNIT)
    stage.run(SpreadQuoting())
    inputs = [values for kind, values, _ in stage.written() if kind == "order_input"]
    # No venue answers here: two quotes, then nothing until the cancels at the end.
    assert [(values["action"], values["side"], values["price"]) for values in inputs] == [
        (1, 1, 100 * UNIT),
        (1, 2, 102 * UNIT),
        (3, 1, 0),
        (3, 2, 0),
    ]


@pytest.mark.parametrize(("size", "inventory"), [("0", "0.05"), ("0.1", "0.05"), ("-1", "1")])
def test_spread_quoting_refuses_sizes_that_make_no_sense(size: str, inventory: str) -> None:
    from tapewire.runtime.errors import ConfigError
    from tapewire.runtime.strategy_loader import load_params

    with pytest.raises(ConfigError, match="max_inventory at least size"):
        load_params(SpreadQuoting, {"size": size, "max_inventory": inventory})
