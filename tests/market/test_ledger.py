"""The ledger over journals that are written here: the same figures whichever way the frames come in."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tapewire import _native
from tapewire.cli import run_cli
from tapewire.journal import Journal, Writer, decode
from tapewire.journal.errors import RunNotFound
from tapewire.journal.format import Liquidity, OrderAction, Reason, ReportStatus, Side, encode_payload
from tapewire.runtime.market.instruments import Instrument, InstrumentTable
from tapewire.runtime.market.ledger import Ledger
from tapewire.runtime.market.rebuild import rebuild, written_positions

MD, TD, ONE, TWO = 1, 2, 3, 4
BTC = Instrument(id=1, symbol="BTCUSDT", tick=10_000_000, lot=10_000, taker_fee=1_000_000)
ETH = Instrument(id=2, symbol="ETHUSDT", tick=10_000_000, lot=100, quantity_exponent=6)
UNIT = 10**9
BUY, SELL = int(Side.BUY), int(Side.SELL)


class Run:
    """A run directory with the streams md, td, one and two (the strategies)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.writers = {
            stream: Writer(directory, name, stream, page_bytes=1 << 20)
            for name, stream in (("md", MD), ("td", TD), ("one", ONE), ("two", TWO))
        }
        manifest = {"instruments": [BTC.to_dict(), ETH.to_dict()]}
        (directory / "manifest.json").write_text(json.dumps(manifest))
        self.execs = 0
        self.orders: dict[int, int] = {}
        self.filled: dict[int, int] = {}

    def depth(self, bid: int, ask: int, instrument: int = 1) -> int:
        """A book of one level a side; 0 leaves a side empty."""
        payload = _depth_payload(instrument, bid, ask)
        return self.writers[MD].append("depth", payload)

    def order(self, stream: int, side: int, price: int, quantity: int, instrument: int = 1) -> int:
        number = self.orders[stream] = self.orders.get(stream, 0) + 1
        order_id = stream << 48 | number
        self.writers[stream].append(
            "order_input",
            order_id=order_id,
            instrument_id=instrument,
            action=OrderAction.NEW,
            side=side,
            order_type=1,
            time_in_force=1,
            price=price,
            quantity=quantity,
            request_id=number,
        )
        return order_id

    def report(self, order_id: int, status: int, side: int, *, stream: int = TD, **fields: int) -> None:
        given = {"instrument_id": 1, "action": OrderAction.NEW, "request_id": order_id & 0xFFFF}
        given["filled"] = self.filled.get(order_id, 0)
        self.writers[stream].append(
            "order_report", order_id=order_id, status=status, side=side, **(given | fields)
        )

    def fill(self, order_id: int, side: int, price: int, quantity: int, **fields: int) -> None:
        self.execs += 1
        self.filled[order_id] = self.filled.get(order_id, 0) + quantity
        given = {
            "instrument_id": 1,
            "exec_id": self.execs,
            "filled": self.filled[order_id],
            "liquidity": Liquidity.TAKER,
        }
        self.writers[TD].append(
            "fill",
            order_id=order_id,
            side=side,
            price=price,
            quantity=quantity,
            **(given | fields),
        )

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


def _depth_payload(instrument: int, bid: int, ask: int) -> bytes:
    import numpy as np

    payload = bytearray(
        encode_payload("depth", instrument_id=instrument, bid_count=int(bid > 0), ask_count=int(ask > 0))
    )
    levels = np.zeros((2, 10, 2), np.int64)
    levels[0, 0] = (bid, UNIT if bid else 0)
    levels[1, 0] = (ask, UNIT if ask else 0)
    payload[-levels.nbytes :] = levels.tobytes()
    return bytes(payload)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    run.close()


def a_story(run: Run) -> None:
    """Two strategies, two instruments; one order is refused here, one there, one is cancelled."""
    run.depth(100 * UNIT, 101 * UNIT)
    run.depth(10 * UNIT, 11 * UNIT, 2)
    first = run.order(ONE, BUY, 101 * UNIT, 2 * UNIT)
    run.report(first, ReportStatus.ACCEPTED, BUY)
    run.fill(first, BUY, 101 * UNIT, UNIT, fee=101_000_000)
    second = run.order(TWO, SELL, 10 * UNIT, 3_000_000, 2)
    run.report(second, ReportStatus.ACCEPTED, SELL, instrument_id=2)
    run.fill(second, SELL, 10 * UNIT, 3_000_000, instrument_id=2, fee=-5)
    run.fill(first, BUY, 101 * UNIT, UNIT, fee=101_000_000)
    run.depth(103 * UNIT, 105 * UNIT)
    run.depth(0, 105 * UNIT)
    third = run.order(ONE, SELL, 103 * UNIT, UNIT)
    run.report(third, ReportStatus.ACCEPTED, SELL)
    run.fill(third, SELL, 103 * UNIT, UNIT, fee=103_000_000)
    fourth = run.order(ONE, SELL, 110 * UNIT, UNIT)
    run.report(fourth, ReportStatus.REJECTED, SELL, reason=Reason.OFF_TICK)
    run.orders[ONE] += 1
    refused = ONE << 48 | run.orders[ONE]
    run.report(refused, ReportStatus.REJECTED, SELL, stream=ONE, reason=Reason.THROTTLED)
    fifth = run.order(TWO, BUY, 9 * UNIT, 1_000_000, 2)
    run.report(fifth, ReportStatus.ACCEPTED, BUY, instrument_id=2)
    run.report(fifth, ReportStatus.CANCELLED, BUY, instrument_id=2, action=0, reason=Reason.STRATEGY_FAILED)
    run.order(TWO, BUY, 8 * UNIT, 1_000_000, 2)


def test_positions_orders_and_counts(run: Run) -> None:
    a_story(run)
    ledger = rebuild(run.directory, keep_done=None)
    one, two = ledger.position(ONE, 1), ledger.position(TWO, 2)
    assert (one.quantity, one.average_price, one.realised) == (UNIT, 101 * UNIT, 2 * UNIT)
    assert (one.unrealised, one.fees, one.fills) == (3 * UNIT, 305_000_000, 3)
    assert one.mark_price == 104 * UNIT  # the one-sided book does not move it
    assert (two.quantity, two.average_price, two.fees) == (-3_000_000, 10 * UNIT, -5)
    assert two.unrealised == -3 * UNIT // 2
    snapshot = ledger.snapshot()
    assert (snapshot["orders"], snapshot["open_orders"], snapshot["fills"]) == (6, 1, 4)
    assert snapshot["reasons"] == {"off_tick": 1, "throttled": 1}
    assert sum(snapshot["impossible"].values()) == 0
    first, second = snapshot["positions"]
    assert first["symbol"] == "BTCUSDT"
    assert first["counts"] == {
        "orders": 3,
        "refused": 1,
        "rejected": 1,
        "requests_refused": 0,
        "requests_rejected": 0,
        "replaced": 0,
        "cancelled": 0,
        "expired": 0,
        "fills": 3,
        "bought": "2.00000",
        "sold": "1.00000",
    }
    assert (second["counts"]["orders"], second["counts"]["cancelled"]) == (3, 1)
    assert [str(order.status) for order in ledger.tracker.done] == [
        "filled",
        "filled",
        "filled",
        "rejected",
        "rejected",
        "cancelled",
    ]
    json.dumps(snapshot)


@pytest.mark.parametrize("batch", [1, 3, 10_000])
def test_batches_of_any_size_and_single_frames_agree(run: Run, batch: int) -> None:
    a_story(run)
    journal = Journal.open(run.directory)
    table = InstrumentTable.from_manifest(journal.manifest["instruments"])
    by_batch, by_frame, by_event = Ledger(table), Ledger(table), Ledger(table)
    with journal.reader() as reader:
        for frames in reader.batches(batch):
            by_batch.apply_batch(frames)
    with journal.reader() as reader:
        for frame in reader:
            by_frame.apply(frame)
            values = decode(frame)
            event = _Event(stream_id=frame.stream_id, seq=frame.seq, **values)
            if frame.type == 1 and values["bids"] and values["asks"]:
                by_event.on_touch(values["instrument_id"], values["bids"][0][0], values["asks"][0][0])
            elif frame.type == 4:
                by_event.on_order_input(event)
            elif frame.type == 5:
                by_event.on_report(event)
            elif frame.type == 6:
                by_event.on_fill(event)
    assert by_batch.snapshot() == by_frame.snapshot()
    counts = {"frames", "depths"}
    assert {k: v for k, v in by_event.snapshot().items() if k not in counts} == {
        k: v for k, v in by_batch.snapshot().items() if k not in counts
    }


class _Event:
    """What the native loop hands over: one attribute per field."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def test_the_impossible_is_shown_with_its_place(run: Run) -> None:
    order = run.order(ONE, BUY, 100 * UNIT, UNIT)
    run.report(order, ReportStatus.ACCEPTED, BUY)
    run.fill(order, BUY, 100 * UNIT, UNIT, exec_id=1)
    run.fill(order, BUY, 100 * UNIT, UNIT, exec_id=1)
    run.fill(ONE << 48 | 77, SELL, 100 * UNIT, UNIT, exec_id=2, filled=UNIT)
    run.fill(order, BUY, 100 * UNIT, UNIT, exec_id=0)
    ledger = rebuild(run.directory)
    counted = {kind: count for kind, count in ledger.snapshot()["impossible"].items() if count}
    assert counted == {
        "repeated_exec_id": 1,
        "fill_without_order": 1,
        "exec_id_zero": 1,
        "fill_after_done": 1,
    }
    assert ledger.snapshot()["impossible_examples"][0] == {
        "kind": "repeated_exec_id",
        "stream_id": TD,
        "seq": 3,
        "order_id": order,
    }
    # The repetition moved nothing; what the venue says we traded moved the position.
    assert ledger.position(ONE, 1).quantity == UNIT
    assert ledger.position(ONE, 1).fills == 3


def test_instruments_that_nobody_configured(run: Run) -> None:
    (run.directory / "manifest.json").unlink()
    run.depth(100 * UNIT, 102 * UNIT)
    order = run.order(ONE, BUY, 102 * UNIT, UNIT)
    run.report(order, ReportStatus.ACCEPTED, BUY)
    run.fill(order, BUY, 102 * UNIT, UNIT)
    (position,) = rebuild(run.directory).positions.values()
    assert (position.symbol, position.quantity, position.unrealised) == ("#1", UNIT, -UNIT)


def test_no_run_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound):
        rebuild(tmp_path / "nothing")


def test_only_changes_are_written(run: Run) -> None:
    ledger = Ledger(InstrumentTable([BTC]))
    ledger.on_touch(1, 100 * UNIT, 102 * UNIT)
    assert ledger.changed() == []
    order = run.order(ONE, BUY, 102 * UNIT, UNIT)
    run.report(order, ReportStatus.ACCEPTED, BUY)
    run.fill(order, BUY, 102 * UNIT, UNIT)
    with Journal.open(run.directory).reader() as reader:
        ledger.apply_batch(reader.read_batch())
    (position,) = ledger.changed()
    ledger.written(position)
    assert ledger.changed() == []
    ledger.on_touch(1, 101 * UNIT, 103 * UNIT)
    assert ledger.changed() == [position]
    position.on_fill(SELL, 103 * UNIT, UNIT, 0)
    ledger.written(position)
    ledger.on_touch(1, 105 * UNIT, 107 * UNIT)  # flat: the mark is nobody's gain
    assert ledger.changed() == []


def test_a_position_frame_reads_back_as_written(run: Run) -> None:
    a_story(run)
    position = rebuild(run.directory).position(TWO, 2)
    run.writers[TD].append("position", position.frame_payload())
    frame = Journal.open(run.directory).reader(["td"], ["position"]).read()
    assert frame is not None
    assert decode(frame) == position.frame_values()


def test_what_the_ledger_wrote_last(run: Run) -> None:
    """Per position the last frame of the ledger's stream, whatever the others hold."""
    a_story(run)
    position = rebuild(run.directory).position(TWO, 2)
    manifest = json.loads((run.directory / "manifest.json").read_text())
    manifest["streams"] = [{"id": 5, "name": "books", "process": "books", "kind": "data"}]
    manifest["processes"] = {"books": {"role": "ledger"}}
    (run.directory / "manifest.json").write_text(json.dumps(manifest))
    assert written_positions(run.directory) == ([], 0)
    with Writer(run.directory, "books", 5) as writer:
        writer.append("position", strategy_stream=ONE, instrument_id=9, quantity=1)
        writer.append("position", strategy_stream=TWO, instrument_id=2, quantity=1)
        writer.append("position", position.frame_payload())
    rows, written_at = written_positions(run.directory)
    assert written_at > 0
    assert [(row["symbol"], row["quantity"]) for row in rows] == [
        ("#9", "0.000000001"),
        ("ETHUSDT", "-3.0000"),
    ]
    assert rows[1] == position.as_dict()


@pytest.mark.slow
def test_a_million_books_and_their_orders_take_seconds(tmp_path: Path) -> None:
    """The promise is 10 s for 1,000,000 depths with 200,000 orders, reports and fills; here a tenth of it."""
    books, every = 100_000, 5
    depth = _depth_payload(1, 100 * UNIT, 101 * UNIT)
    writers = {
        name: _native.StreamWriter(str(tmp_path / "journal"), name, stream, 1, 1, 16 << 20)
        for name, stream in (("md", MD), ("td", TD), ("one", ONE))
    }
    common = {"instrument_id": 1, "price": 100 * UNIT, "quantity": 10_000}
    for number in range(1, books + 1):
        writers["md"].append(1, depth)
        if number % every:
            continue
        count = number // every
        given = {**common, "order_id": ONE << 48 | count, "side": 1 + count % 2}
        writers["one"].append(4, encode_payload("order_input", **given, action=1, request_id=count))
        writers["td"].append(5, encode_payload("order_report", **given, status=1, action=1))
        writers["td"].append(6, encode_payload("fill", **given, exec_id=count, filled=10_000))
    for writer in writers.values():
        writer.close()
    started = time.perf_counter()
    ledger = rebuild(tmp_path)
    took_s = time.perf_counter() - started
    assert ledger.depths == books
    assert ledger.snapshot()["fills"] == books // every
    assert ledger.tracker.impossible_total == 0
    print(f"{books} depths, {books // every} orders: {took_s:.2f} s")
    assert took_s < 10 / 10 * 2  # a busy machine is half as fast as a quiet one


# -- the command line --------------------------------------------------------------------------------


@pytest.fixture
def finished(run: Run) -> Run:
    a_story(run)
    manifest = json.loads((run.directory / "manifest.json").read_text())
    names = {"md": "market_data", "td": "trade_gateway", "one": "strategy", "two": "strategy"}
    manifest |= {
        "name": "story",
        "run_id": 1,
        "state": "finished",
        "streams": [
            {"id": number, "name": name, "process": name, "kind": "data"}
            for number, name in enumerate(names, 1)
        ],
        "processes": {name: {"role": role} for name, role in names.items()},
    }
    (run.directory / "manifest.json").write_text(json.dumps(manifest))
    return run


def test_positions_command(finished: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["positions", str(finished.directory)]) == 0
    out = capsys.readouterr().out
    assert "rebuilt from its journal" in out
    assert re.search(r"one +BTCUSDT +1\.00000 +101\.00 +104\.00 +2\.00 +3\.00 +0\.305 +4\.695 +3", out)
    assert re.search(r"two +ETHUSDT +-3\.0000 +10\.00 +10\.50", out)
    assert "refused or rejected: 1 off tick, 1 throttled" in out
    assert "impossible frames: none" in out
    assert run_cli(["positions", str(finished.directory), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["source"], shown["positions"][0]["net"]) == ("journal", "4.695")


def test_impossible_frames_are_printed(finished: Run, capsys: pytest.CaptureFixture[str]) -> None:
    finished.fill(ONE << 48 | 99, BUY, 100 * UNIT, UNIT)
    assert run_cli(["positions", str(finished.directory)]) == 0
    out = capsys.readouterr().out
    assert "impossible frames: 1 fill without order" in out
    assert "fill_without_order: stream td, frame 11, order 3:99" in out


def test_orders_command(finished: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["orders", str(finished.directory), "--limit", "2"]) == 0
    out = capsys.readouterr().out
    assert "6 finished and 1 working orders" in out
    assert re.search(r"4:2 +two +ETHUSDT +buy +limit gtc +9\.00 +1\.0000 .* cancelled +strategy_failed", out)
    assert "4 more" in out
    assert run_cli(["orders", str(finished.directory), "--open", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(order["status"], order["price"]) for order in shown["orders"]] == [("pending_new", "8.00")]
    assert run_cli(["orders", str(finished.directory / "none")]) == 2
