"""What native code must refuse from Python, or survive: wrong sizes, wrong threads, numbers out of range."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tapewire import _native
from tapewire.journal import Journal, decode
from tapewire.journal.errors import JoinTimeout, JournalCorrupt
from tapewire.journal.format import FrameType, LifecycleKind, encode_payload

MD, STREAM = 1, 3
DRAIN = 1


class Run:
    """One market data stream, one strategy stream, and what a loop needs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.journal = str(directory / "journal")
        self.control = _native.Control.create(str(directory / "control"))
        self.counters = _native.Counters.create(str(directory / "counters"), ["md", "td", "strategy"])
        self.md = _native.StreamWriter(self.journal, "md", MD, 1, 1, 1 << 16)
        self.strategy = _native.StreamWriter(self.journal, "strategy", STREAM, 1, 1, 1 << 16)

    def context(self, slot: int = 2) -> _native.LoopContext:
        return _native.LoopContext(self.control, self.counters, slot, "yield")

    def strategy_loop(self) -> _native.StrategyLoop:
        reader = _native.LiveReader(self.journal, ["md"])
        instruments = [_native.NativeInstrument(1, 10, 10)]
        return _native.StrategyLoop(self.context(), reader, self.strategy, None, instruments)

    def stop(self) -> None:
        self.control.request_stop(2, DRAIN)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    run.md.close()
    run.strategy.close()


class OnDepth:
    """A handler that does one thing at every depth, and keeps what that raised."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self.action = action
        self.raised: list[Exception] = []

    def on_depth(self, depth: _native.Depth) -> None:
        try:
            self.action()
        except Exception as error:
            self.raised.append(error)


@pytest.mark.parametrize("origin", [{"cause": (1,)}, {"cause": ()}, {"root": (1, 2)}, {"cause": [1, 2]}])
def test_an_origin_of_the_wrong_shape_is_a_type_error(run: Run, origin: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="must be"):
        run.md.append(FrameType.USER, b"", **origin)
    assert run.md.last_seq == 0


def test_short_frames_of_every_type_reach_no_handler(run: Run) -> None:
    for kind in (
        FrameType.DEPTH,
        FrameType.BOOK_TICKER,
        FrameType.TRADE,
        FrameType.ORDER_REPORT,
        FrameType.FILL,
    ):
        run.md.append(kind, b"")
    handler = OnDepth(lambda: None)
    handler.on_ticker = handler.on_trade = handler.on_report = handler.on_fill = handler.on_depth  # type: ignore[attr-defined]
    handler.action = lambda: pytest.fail("a short frame was dispatched")
    run.stop()
    assert run.strategy_loop().run(handler) == 5
    assert handler.raised == []
    assert run.counters.block(2).get("dropped") == 5

    reader = _native.LiveReader(run.journal, ["md"])
    ledger = _native.LedgerLoop(run.context(1), reader, None, [_native.NativeInstrument(1, 10, 10)])
    run.control.request_stop(1, DRAIN)
    assert ledger.run(object()) == 5
    assert run.counters.block(1).get("dropped") == 3  # of the five it looks at depth, report and fill


def test_a_handler_cannot_start_its_own_loop_again(run: Run) -> None:
    run.md.append(FrameType.DEPTH, encode_payload("depth", instrument_id=1))
    loop = run.strategy_loop()
    handler = OnDepth(lambda: loop.run(object()))
    run.stop()
    loop.run(handler)
    assert [type(error) for error in handler.raised] == [RuntimeError]
    assert "in use" in str(handler.raised[0])
    assert loop.run(object()) == 0  # afterwards it may


def test_orders_leave_by_the_thread_that_runs_the_strategy(run: Run) -> None:
    run.md.append(FrameType.DEPTH, encode_payload("depth", instrument_id=1))
    loop = run.strategy_loop()
    refused: list[str] = []

    def from_elsewhere() -> None:
        for call in (
            lambda: loop.submit(1, 1, 1, 1, 1, 10, 10, 1, 1),
            lambda: loop.set_timer(1, 1),
            lambda: loop.text("x"),
        ):
            try:
                call()
            except RuntimeError as error:
                refused.append(str(error))

    def in_a_thread() -> None:
        thread = threading.Thread(target=from_elsewhere)
        thread.start()
        thread.join()

    run.stop()
    loop.run(OnDepth(in_a_thread))
    assert len(refused) == 3
    with Journal.open(run.directory).reader(["strategy"]) as reader:
        assert {FrameType(frame.type) for frame in reader} == {FrameType.LIFECYCLE}


def test_a_timer_for_a_time_gone_by_does_not_hold_up_a_stop(run: Run) -> None:
    run.md.append(FrameType.TEXT, b"open")
    loop = run.strategy_loop()
    fired = 0

    class Handler:
        def on_start(self) -> None:
            loop.set_timer(1, 0)

        def on_timer(self, event: _native.Timer) -> None:
            nonlocal fired
            fired += 1
            if fired == 100:
                run.stop()
            if fired < 1_000_000:
                loop.set_timer(1, 0)

    loop.run(Handler())
    assert 100 <= fired < 1_000


def test_a_damaged_input_ends_in_a_failed_lifecycle(run: Run) -> None:
    run.md.append(FrameType.TEXT, b"good")
    run.md.append(FrameType.TEXT, b"bad!")
    page = run.directory / "journal" / "md" / "00000001.page"
    with page.open("r+b") as file:
        file.seek(128 + 64)
        file.write(b"\x07")  # an impossible length
    with pytest.raises(JournalCorrupt):
        run.strategy_loop().run(object())
    with Journal.open(run.directory).reader(["strategy"]) as reader:
        kinds = [decode(frame)["kind"] for frame in reader]
    assert kinds == [LifecycleKind.START, LifecycleKind.FAILED]


def test_a_loop_needs_a_slot_of_the_run_and_writable_counters(run: Run) -> None:
    with pytest.raises(IndexError):
        run.context(3)
    readable = _native.Counters.open(str(run.directory / "counters"))
    with pytest.raises(TypeError, match="reading"):
        _native.LoopContext(run.control, readable, 0, "yield")
    for consumers in ([(3, [])], [(1, [(MD, 3)])]):
        with pytest.raises(IndexError):
            _native.Lockstep(run.context(), consumers)


def test_no_slot_stands_for_another(run: Run) -> None:
    for call in (
        run.control.request_stop,
        run.control.mark_failed,
        run.control.failed,
        run.control.clear_waits,
    ):
        with pytest.raises(IndexError):
            call(32 + 2)
    with pytest.raises(ValueError, match="how"):
        run.control.request_stop(2, 3)
    assert run.control.stop_requested(2) == 0


@pytest.mark.parametrize("timeout_s", [float("nan"), -1.0, 0.0, 0.02])
def test_a_stream_that_does_not_come_is_a_timeout(run: Run, timeout_s: float) -> None:
    with pytest.raises(JoinTimeout):
        _native.LiveReader(run.journal, ["nobody"], timeout_s=timeout_s)


def test_an_endless_timeout_does_not_overflow(run: Run) -> None:
    late = threading.Timer(
        0.2, lambda: _native.StreamWriter(run.journal, "late", 5, 1, 1, 1 << 16).append(FrameType.TEXT, b"x")
    )
    late.start()
    reader = _native.LiveReader(run.journal, ["late"], timeout_s=float("inf"))
    late.join()
    assert reader.stream_ids == [5]


@pytest.mark.parametrize(
    "bad",
    [
        {"interval_ns": 2**62},
        {"interval_ns": -1},
        {"linger_ns": -1},
        {"spin_window_ns": 2**62},
        {"start_price": 2**63 - 1},
        {"spread_ticks": 2**62},
    ],
)
def test_a_feed_that_would_overflow_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"is 0 to|are 0 to|would not fit"):
        _native.SyntheticFeed([_native.NativeInstrument(1, 10, 10)], **bad)


def test_rows_of_an_impossible_size_are_refused(run: Run) -> None:
    run.md.append(FrameType.USER, b"12345678")
    reader = _native.NativeReader([run.journal], ["md"])
    batch = reader.fill(bytearray(56))
    assert len(batch) == 1
    for payload_bytes in (2**64 - 100, 2**63, 2**40):
        with pytest.raises(ValueError, match="long"):
            batch.rows_into(FrameType.USER, payload_bytes, bytearray(64))
    assert batch.rows_into(FrameType.USER, 8, bytearray(63)) == 0
    assert batch.rows_into(FrameType.USER, 8, bytearray(64)) == 1


def test_the_ledger_shows_quantities_with_the_decimals_of_their_instrument(run: Run) -> None:
    run.md.append(FrameType.FILL, encode_payload("fill", instrument_id=1, quantity=1_500, price=10**9))
    reader = _native.LiveReader(run.journal, ["md"])
    instrument = _native.NativeInstrument(1, 10, 10, quantity_exponent=3)
    ledger = _native.LedgerLoop(run.context(1), reader, None, [instrument])
    seen: list[Decimal] = []

    class Handler:
        def on_fill(self, fill: _native.Fill) -> None:
            seen.append(fill.quantity_decimal)

    run.control.request_stop(1, DRAIN)
    ledger.run(Handler())
    assert seen == [Decimal("1.5")]


def test_a_damaged_stream_does_not_keep_the_others_from_being_recorded(run: Run) -> None:
    run.md.append(FrameType.TEXT, b"x")
    run.strategy.append(FrameType.TEXT, b"y")
    with (run.directory / "journal" / "md" / "00000001.page").open("r+b") as file:
        file.seek(128)
        file.write(b"\x07")
    recorder = _native.NativeRecorder(run.journal, str(run.directory / "kept"), ["md", "strategy"], False)
    for _ in range(2):
        with pytest.raises(JournalCorrupt):
            recorder.step()
        assert recorder.recorded == [0, 1]
