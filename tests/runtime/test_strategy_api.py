"""What a strategy author can do, on a port that keeps the frames in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapewire import OffLot, OffTick, Order, OrderError, OutOfRange, Strategy
from tapewire.journal.format import OrderAction, Reason, ReportStatus, Side
from tapewire.runtime.errors import ConfigError
from tapewire.runtime.market.instruments import Instrument, InstrumentTable
from tapewire.runtime.order_desk import OrderDesk
from tapewire.runtime.strategy_host import StrategyFailed, StrategyHost
from tapewire.runtime.strategy_loader import load_strategy, load_strategy_class

STREAM, VENUE, FEED = 3, 2, 1
BTC = Instrument(id=1, symbol="BTCUSDT", tick=10_000_000, lot=10_000)
PEPE = Instrument(id=2, symbol="PEPEUSDT", tick=10, lot=100, quantity_exponent=2)
TABLE = InstrumentTable([BTC, PEPE])
PRICE = 61_685_990_000_000
LOT = 1_000_000


class MemoryPort:
    """Keeps what a strategy sends; its clock is set by the test."""

    def __init__(self) -> None:
        self.clock = 1_000
        self.inputs: list[tuple[int, ...]] = []
        self.refusals: list[tuple[int, ...]] = []
        self.timers: dict[int, int] = {}
        self.seq = 0

    def submit(self, *fields: int) -> int:
        self.inputs.append(fields)
        self.seq += 1
        return self.seq

    def reject_local(self, *fields: int) -> int:
        self.refusals.append(fields)
        self.seq += 1
        return self.seq

    def set_timer(self, timer_id: int, due_ns: int, /) -> None:
        self.timers[timer_id] = due_ns

    def cancel_timer(self, timer_id: int, /) -> bool:
        return self.timers.pop(timer_id, None) is not None

    def now_ns(self) -> int:
        return self.clock


@dataclasses.dataclass
class Level:
    price: int
    quantity: int


@dataclasses.dataclass
class Depth:
    instrument_id: int
    best_bid: Level
    best_ask: Level
    seq: int = 1
    stream_id: int = FEED
    bid_count: int = 1
    ask_count: int = 1

    @property
    def bid_price(self) -> int:
        return self.best_bid.price

    @property
    def ask_price(self) -> int:
        return self.best_ask.price


@dataclasses.dataclass
class Event:
    """A report or a fill: whatever fields the frame has."""

    order_id: int
    stream_id: int = VENUE
    seq: int = 1
    instrument_id: int = 1
    side: int = Side.BUY
    price: int = PRICE
    quantity: int = 0
    filled: int = 0
    status: int = ReportStatus.ACCEPTED
    reason: int = 0
    request_id: int = 0
    action: int = OrderAction.NEW
    exec_id: int = 0
    fee: int = 0


class Bench:
    """A strategy on a memory port, and the venue's side of the talk."""

    def __init__(self, strategy: Strategy | None = None, **limits: Any) -> None:
        self.port = MemoryPort()
        self.desk = OrderDesk(self.port, TABLE, STREAM, **limits)
        self.strategy = strategy or Strategy()
        self.lines: list[str] = []
        self.host = StrategyHost(
            self.strategy, self.strategy.params, self.desk, log=self.lines.append, streams={FEED: "md"}
        )
        self.execs = 0

    def report(self, order: Order, status: int, **fields: Any) -> None:
        given = {
            "side": order.side,
            "instrument_id": order.instrument.id,
            "price": order.price,
            "quantity": order.quantity,
            "filled": order.filled,
            "request_id": order.request_id,
        }
        self.host.on_report(Event(order.order_id, status=status, **(given | fields)))

    def fill(self, order: Order, quantity: int, **fields: Any) -> None:
        self.execs += 1
        given = {
            "side": order.side,
            "instrument_id": order.instrument.id,
            "price": order.price,
            "quantity": quantity,
            "filled": order.filled + quantity,
            "exec_id": self.execs,
        }
        self.host.on_fill(Event(order.order_id, **(given | fields)))

    def depth(self, bid: int = PRICE, ask: int = PRICE + 10_000_000, instrument_id: int = 1) -> None:
        self.host.on_depth(Depth(instrument_id, Level(bid, LOT), Level(ask, LOT)))


@pytest.fixture
def bench() -> Bench:
    return Bench()


# -- prices and quantities ---------------------------------------------------------------------------


@pytest.mark.parametrize("price", [PRICE, "61685.99", Decimal("61685.99"), Decimal("61685.990"), 61685.99])
@pytest.mark.parametrize("quantity", [LOT, "0.001", Decimal("1e-3"), 0.001])
def test_forms_of_numbers_are_the_same_order(bench: Bench, price: Any, quantity: Any) -> None:
    order = bench.strategy.buy("BTCUSDT", price, quantity)
    first = STREAM << 48 | 1
    assert bench.port.inputs == [(1, 1, 1, Side.BUY, 1, PRICE, LOT, first, 1)]
    assert (order.order_id, order.price, order.quantity) == (first, PRICE, LOT)
    assert order.price_decimal == Decimal("61685.99")
    assert order.quantity_decimal == Decimal("0.001")
    assert order.status == "pending_new"


def test_symbol_or_instrument_id(bench: Bench) -> None:
    assert bench.strategy.buy(2, "0.0000123", "1000").instrument is PEPE
    assert bench.strategy.sell("PEPEUSDT", "0.0000123", 100_000).quantity_decimal == 1000
    for unknown in ("ETHUSDT", 7):
        with pytest.raises(OrderError, match="BTCUSDT"):
            bench.strategy.buy(unknown, PRICE, LOT)


@pytest.mark.parametrize("price", [0.1 + 0.2, 61685.991, float("nan"), float("inf")])
def test_a_float_beside_the_tick_raises(bench: Bench, price: float) -> None:
    with pytest.raises(OrderError):
        bench.strategy.buy("BTCUSDT", price, LOT)
    assert bench.port.seq == 0


def test_a_float_beside_the_lot_raises(bench: Bench) -> None:
    with pytest.raises(OffLot):
        bench.strategy.buy("BTCUSDT", PRICE, 0.0000005)
    with pytest.raises(OffTick):
        bench.strategy.buy("BTCUSDT", "0.00000000001", LOT)


@pytest.mark.parametrize(
    ("price", "quantity", "reason"),
    [
        ("61685.991", LOT, Reason.OFF_TICK),
        (PRICE + 1, LOT, Reason.OFF_TICK),
        (0, LOT, Reason.BAD_PRICE),
        ("-1", LOT, Reason.BAD_PRICE),
        (PRICE, 0, Reason.BAD_QUANTITY),
        (PRICE, "-0.001", Reason.BAD_QUANTITY),
        (PRICE, LOT + 1, Reason.OFF_LOT),
        (9_223_372_036_860_000_000, LOT, Reason.OVERFLOW),
    ],
)
def test_a_bad_order_is_refused_and_journaled(
    bench: Bench, price: Any, quantity: Any, reason: Reason
) -> None:
    order = bench.strategy.buy("BTCUSDT", price, quantity)
    assert (order.status, order.reason, order.is_open, order.leaves) == ("rejected", reason, False, 0)
    assert bench.port.inputs == []
    ((action, why, side, instrument, *_, order_id, request_id),) = bench.port.refusals
    assert (action, why, side, instrument) == (1, reason, Side.BUY, 1)
    assert (order_id, request_id) == (order.order_id, 1)
    assert bench.strategy.open_orders() == []
    assert bench.desk.summary()["refusals"] == {reason.name.lower(): 1}
    assert bench.strategy.buy("BTCUSDT", PRICE, LOT).order_id == STREAM << 48 | 2


def test_types_and_times_in_force(bench: Bench) -> None:
    strategy = bench.strategy
    strategy.buy("BTCUSDT", PRICE, LOT, tif="ioc")
    strategy.sell("BTCUSDT", PRICE, LOT, tif="fok")
    strategy.sell("BTCUSDT", None, LOT, type="market")
    assert [(kind, tif, price) for _, kind, tif, _, _, price, *_ in bench.port.inputs] == [
        (1, 3, PRICE),
        (1, 4, PRICE),
        (2, 3, 0),
    ]
    for wrong in ({"type": "stop"}, {"tif": "day"}):
        with pytest.raises(OrderError, match="is not one of"):
            strategy.buy("BTCUSDT", PRICE, LOT, **wrong)
    with pytest.raises(OrderError, match="market order"):
        strategy.buy("BTCUSDT", PRICE, LOT, type="market")
    with pytest.raises(OrderError, match="limit order needs one"):
        strategy.buy("BTCUSDT", None, LOT)


def test_too_large_for_a_frame(bench: Bench) -> None:
    with pytest.raises(OutOfRange):
        bench.strategy.buy("BTCUSDT", "99999999999", LOT)


# -- life of an order --------------------------------------------------------------------------------


def test_events_reach_the_strategy_with_its_order_up_to_date() -> None:
    seen: list[tuple[str, str, int]] = []

    class Watching(Strategy):
        def on_order(self, order: Order, report: Any) -> None:
            seen.append(("order", order.status, report.status))

        def on_fill(self, order: Order, fill: Any) -> None:
            seen.append(("fill", order.status, self.position("BTCUSDT").quantity))

    bench = Bench(Watching())
    order = bench.strategy.buy("BTCUSDT", PRICE, 3 * LOT)
    bench.report(order, ReportStatus.ACCEPTED)
    bench.fill(order, LOT, fee=5)
    assert bench.strategy.open_orders() == [order]
    assert bench.strategy.open_orders("PEPEUSDT") == []
    bench.fill(order, 2 * LOT, fee=5)
    assert seen == [
        ("order", "new", ReportStatus.ACCEPTED),
        ("fill", "partially_filled", LOT),
        ("fill", "filled", 3 * LOT),
    ]
    assert bench.strategy.open_orders() == []
    position = bench.strategy.position("BTCUSDT")
    assert (position.quantity, position.average_price, position.fees) == (3 * LOT, PRICE, 10)
    assert position.unrealised == 0
    bench.depth(PRICE + 1_000_000_000, PRICE + 3_000_000_000)
    assert bench.strategy.position(1).unrealised_decimal == Decimal("0.006")


def test_other_strategies_orders_are_not_ours(bench: Bench) -> None:
    bench.host.on_report(Event(9 << 48 | 1))
    bench.host.on_fill(Event(9 << 48 | 1, quantity=5, exec_id=1))
    assert bench.desk.summary()["impossible"] == {}
    assert bench.strategy.position(1).quantity == 0


def test_impossible_frames_do_not_reach_the_strategy() -> None:
    class Strict(Strategy):
        def on_fill(self, order: Order, fill: Any) -> None:
            assert order.filled <= order.quantity

    bench = Bench(Strict())
    bench.host.on_fill(Event(STREAM << 48 | 5, quantity=LOT, exec_id=3))
    assert bench.desk.summary()["impossible"] == {"fill_without_order": 1}
    assert bench.strategy.position(1).quantity == LOT  # the venue says we traded


def test_replace_and_cancel(bench: Bench) -> None:
    strategy = bench.strategy
    order = strategy.sell("BTCUSDT", PRICE, 3 * LOT)
    bench.report(order, ReportStatus.ACCEPTED)
    assert strategy.replace(order, price="61686.00")
    assert (order.status, order.is_waiting) == ("pending_replace", True)
    assert bench.port.inputs[-1] == (2, 1, 1, Side.SELL, 1, PRICE + 10_000_000, 3 * LOT, order.order_id, 2)
    bench.report(
        order,
        ReportStatus.REPLACED,
        action=OrderAction.REPLACE,
        price=PRICE + 10_000_000,
        request_id=2,
    )
    assert (order.status, order.price, order.is_waiting) == ("new", PRICE + 10_000_000, False)
    assert strategy.cancel(order)
    assert not strategy.cancel(order)
    assert bench.port.inputs[-1][0] == OrderAction.CANCEL
    bench.report(order, ReportStatus.CANCELLED, action=OrderAction.CANCEL, request_id=3)
    assert order.status == "cancelled"
    assert not strategy.replace(order, price=PRICE)
    assert not strategy.cancel(order)
    assert len(bench.port.inputs) == 3
    assert bench.desk.summary()["impossible"] == {}


def test_a_bad_replace_leaves_the_order_alone(bench: Bench) -> None:
    order = bench.strategy.buy("BTCUSDT", PRICE, LOT)
    bench.report(order, ReportStatus.ACCEPTED)
    assert not bench.strategy.replace(order, price=PRICE + 1)
    assert (order.status, order.reason, order.price) == ("new", Reason.OFF_TICK, PRICE)
    ((action, reason, *_),) = bench.port.refusals
    assert (action, reason) == (OrderAction.REPLACE, Reason.OFF_TICK)


# -- limits ------------------------------------------------------------------------------------------


def test_throttle_is_a_bucket_of_one_second() -> None:
    bench = Bench(throttle_per_s=3)
    reasons = [bench.strategy.buy("BTCUSDT", PRICE, LOT).reason for _ in range(5)]
    assert reasons == [0, 0, 0, Reason.THROTTLED, Reason.THROTTLED]
    bench.port.clock += 333_333_333
    assert bench.strategy.buy("BTCUSDT", PRICE, LOT).reason == Reason.THROTTLED
    bench.port.clock += 1
    assert bench.strategy.buy("BTCUSDT", PRICE, LOT).reason == 0
    first = bench.strategy.open_orders()[0]
    assert not bench.strategy.replace(first, price=PRICE - 10_000_000)
    assert first.reason == Reason.THROTTLED
    assert bench.strategy.cancel(first)  # getting out is never refused
    bench.port.clock += 10_000_000_000
    sent = [bench.strategy.buy("BTCUSDT", PRICE, LOT).reason for _ in range(4)]
    assert sent == [0, 0, 0, Reason.THROTTLED]


def test_max_position_counts_open_orders_of_the_same_side() -> None:
    bench = Bench(max_position="0.005")
    strategy = bench.strategy
    first = strategy.buy("BTCUSDT", PRICE, "0.003")
    assert strategy.buy("BTCUSDT", PRICE, "0.003").reason == Reason.MAX_POSITION
    second = strategy.buy("BTCUSDT", PRICE, "0.002")
    assert second.reason == 0
    sold = strategy.sell("BTCUSDT", PRICE, "0.005")
    assert sold.reason == 0
    assert strategy.sell("BTCUSDT", PRICE, "0.00001").reason == Reason.MAX_POSITION
    for order in (first, second, sold):
        bench.report(order, ReportStatus.ACCEPTED)
    bench.fill(first, 3 * LOT)
    # Long 0.003 with 0.002 more to come: selling may go to 0.005 short, which is what is working.
    assert strategy.sell("BTCUSDT", PRICE, "0.003").reason == 0
    assert strategy.sell("BTCUSDT", PRICE, "0.00001").reason == Reason.MAX_POSITION
    bench.report(second, ReportStatus.CANCELLED, action=0)
    assert strategy.buy("BTCUSDT", PRICE, "0.002").reason == 0
    assert strategy.buy("PEPEUSDT", "0.00001", "0.01").reason == Reason.OFF_LOT
    assert strategy.buy("PEPEUSDT", "0.00001", "1").reason == Reason.MAX_POSITION


def test_max_position_counts_the_larger_of_a_replace() -> None:
    bench = Bench(max_position="0.005")
    strategy = bench.strategy
    order = strategy.buy("BTCUSDT", PRICE, "0.003")
    bench.report(order, ReportStatus.ACCEPTED)
    assert not strategy.replace(order, quantity="0.006")
    assert order.reason == Reason.MAX_POSITION
    assert strategy.replace(order, quantity="0.005")
    assert strategy.buy("BTCUSDT", PRICE, "0.001").reason == Reason.MAX_POSITION
    bench.report(order, ReportStatus.REJECTED, action=OrderAction.REPLACE, request_id=3)
    assert order.status == "new"
    assert strategy.buy("BTCUSDT", PRICE, "0.002").reason == 0


def test_limits_never_drift() -> None:
    """After everything is done, what the limit counts is what is held."""
    bench = Bench(max_position="1")
    strategy = bench.strategy
    for step in range(200):
        send = strategy.buy if step % 2 else strategy.sell
        order = send("BTCUSDT", PRICE, (1 + step % 5) * LOT)
        bench.report(order, ReportStatus.ACCEPTED)
        if step % 3 == 0:
            strategy.replace(order, quantity=(2 + step % 7) * LOT)
            request = bench.port.inputs[-1][-1]
            status = ReportStatus.REPLACED if step % 2 else ReportStatus.REJECTED
            bench.report(
                order,
                status,
                action=OrderAction.REPLACE,
                request_id=request,
                quantity=(2 + step % 7) * LOT,
            )
        if step % 4 == 0:
            bench.fill(order, LOT)
        if order.is_open:
            strategy.cancel(order)
            request = bench.port.inputs[-1][-1]
            bench.report(order, ReportStatus.CANCELLED, action=OrderAction.CANCEL, request_id=request)
    line = bench.desk._lines["BTCUSDT"]
    assert (line.working_buy, line.working_sell) == (0, 0)
    assert bench.desk.summary()["impossible"] == {}


# -- timers, clock, log ------------------------------------------------------------------------------


def test_timers_and_clock(bench: Bench) -> None:
    strategy = bench.strategy
    assert strategy.now_ns() == 1_000
    assert strategy.set_timer(500) == 1
    assert strategy.set_timer(at_ns=9_000) == 2
    assert bench.port.timers == {1: 1_500, 2: 9_000}
    assert strategy.cancel_timer(1)
    assert not strategy.cancel_timer(1)
    with pytest.raises(OrderError, match="one of them"):
        strategy.set_timer()
    strategy.log(strategy.position("BTCUSDT"))
    assert bench.lines == [
        "<Position 0.00000 BTCUSDT @ 0.00, realised 0.00, unrealised 0.00, fees 0.00>",
    ]


def test_nothing_works_before_the_start() -> None:
    strategy = Strategy()
    for act in (
        lambda: strategy.buy("BTCUSDT", PRICE, LOT),
        strategy.now_ns,
        strategy.open_orders,
        lambda: strategy.log("x"),
        lambda: strategy.instruments,
    ):
        with pytest.raises(OrderError, match="not running yet"):
            act()


def test_unused_events_have_no_handler() -> None:
    class OnlyTrades(Strategy):
        def on_trade(self, trade: Any) -> None: ...

    host = Bench(OnlyTrades()).host
    assert host.on_trade is not None
    assert (host.on_ticker, host.on_timer) == (None, None)
    # These keep orders, positions and their marks up to date, whoever listens.
    assert None not in (host.on_report, host.on_fill, host.on_depth)


def test_a_failure_names_method_line_and_frame() -> None:
    class Failing(Strategy):
        def on_depth(self, depth: Any) -> None:
            raise ZeroDivisionError("oh")

        def on_start(self) -> None:
            self.buy("ETHUSDT", 1, 1)

    bench = Bench(Failing())
    with pytest.raises(StrategyFailed) as failed:
        bench.depth()
    assert (failed.value.stream_id, failed.value.seq, failed.value.frame_type) == (FEED, 1, "depth")
    assert "ZeroDivisionError: oh in on_depth at depth frame 1 of stream md" in str(failed.value)
    assert f"{__file__}: line " in str(failed.value)
    with pytest.raises(StrategyFailed, match="in on_start"):
        bench.host.on_start()


# -- loading -----------------------------------------------------------------------------------------


GOOD = """
from decimal import Decimal
import msgspec
from tapewire import Strategy
import helper_of_mine

class Sized(Strategy):
    class Params(msgspec.Struct):
        size: Decimal
        every: int = 5

class OuterParams(msgspec.Struct):
    level: int = helper_of_mine.LEVEL

class Annotated(Strategy):
    params: OuterParams

class Plain(Strategy):
    pass

class Needs(Strategy):
    def __init__(self, argument): ...

def not_a_class(): ...
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Callable[[str], str]:
    (tmp_path / "helper_of_mine.py").write_text("LEVEL = 3\n")

    def write(text: str) -> str:
        path = tmp_path / "mine.py"
        path.write_text(text)
        return str(path)

    return write


def test_loads_classes_and_params(user_file: Callable[[str], str]) -> None:
    path = user_file(GOOD)
    strategy, params = load_strategy(f"{path}:Sized", {"size": "0.5"})
    assert type(strategy).__name__ == "Sized"
    assert msgspec.to_builtins(params) == {"size": "0.5", "every": 5}
    assert load_strategy(f"{path}:Annotated", {})[1].level == 3  # type: ignore[attr-defined]
    assert load_strategy(f"{path}:Plain", {})
    assert load_strategy("tapewire.examples.spread_quoting:SpreadQuoting", {"size": "0.02"})


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("Missing", {}, "has no class 'Missing'"),
        ("not_a_class", {}, "is not a Strategy"),
        ("Sized", {}, "strategy.params.size: missing"),
        ("Sized", {"size": "x"}, "strategy.params.size"),
        ("Sized", {"size": 1, "evry": 2}, "strategy.params.evry: unknown key .* every"),
        ("Sized", {"size": 1, "every": "2"}, "strategy.params.every: expected int"),
        ("Plain", {"size": 1}, "strategy.params.size: unknown key"),
        ("Needs", {}, "TypeError"),
    ],
)
def test_what_does_not_fit_is_a_config_error(
    user_file: Callable[[str], str], name: str, params: dict[str, Any], message: str
) -> None:
    path = user_file(GOOD)
    with pytest.raises(ConfigError, match=message) as caught:
        load_strategy(f"{path}:{name}", params, where="t.toml")
    assert str(caught.value).startswith("t.toml: processes.strategy.")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = 1 / 0\n", "mine.py: line 2: ZeroDivisionError: division by zero while it was imported"),
        ("x = 1\n\ndef f(:\n", "mine.py: line 3: SyntaxError"),
        ("import no_such_module\n", "mine.py: line 1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("import sys\nsys.exit(3)\n", "mine.py: line 2: SystemExit: 3"),
    ],
)
def test_a_file_that_fails_names_its_line(user_file: Callable[[str], str], text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_strategy_class(user_file(text) + ":Mine")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere.py:A", "no such file"),
        ("no.such.module:A", "no module named no"),
        ("tapewire.examples.nothing:A", "no module named tapewire.examples.nothing"),
        ("mine.py", "not a strategy"),
    ],
)
def test_places_that_are_none(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_strategy_class(spec)
