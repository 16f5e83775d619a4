"""A recording all the way into a journal and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tapewire import _native
from tapewire.journal.errors import FrameTooLarge
from tapewire.journal.format import LifecycleKind, decode_payload
from tapewire.journal.journal import Journal
from tapewire.runtime.instrument import Instrument
from tapewire.runtime.market.binance import BinanceRecording
from tapewire.runtime.market.pace import Pacer
from tapewire.runtime.market.replay_recording import play

BTC = Instrument(id=7, symbol="BTCUSDT", tick=10_000_000, lot=10_000)
NANO = 10**9


@pytest.fixture
def writer(tmp_path: Path) -> _native.StreamWriter:
    return _native.StreamWriter(str(tmp_path / "journal"), "md", 1, 42, 1, 1 << 16)


def frames(tmp_path: Path) -> list[tuple[int, dict[str, Any]]]:
    with Journal.open(tmp_path).reader() as reader:
        return [(frame.type, decode_payload(frame.type, frame.payload)) for frame in reader]


def test_frames_hold_what_the_recording_said(
    recording: Any, writer: _native.StreamWriter, tmp_path: Path
) -> None:
    recording.snapshot(8, [("90", "1"), ("89.5", "4")], [("91", "2")])
    recording.ticker(9, "90", "1", "91", "2")
    recording.trade(77, "91", "0.5", maker=True)
    recording.update(9, 12, [("90", "0")], [("90.75", "3")]).update(20, 20)
    start = recording.now - 4_000_000
    reader = BinanceRecording(recording.write(tmp_path / "day.gz"), [BTC])
    publisher = _native.MarketPublisher(writer)
    assert play(reader, publisher, Pacer(None, should_stop=lambda: False))
    assert publisher.end_of_input(reader.accounting.last_receive_time) == 7

    first, ticker, trade, second, gap, no_book, end = (values for _, values in frames(tmp_path))
    assert first["instrument_id"] == 7
    assert (first["exchange_time"], first["receive_time"], first["update_id"]) == (0, start, 8)
    assert [tuple(level) for level in first["bids"]] == [
        (90 * NANO, NANO),
        (89 * NANO + NANO // 2, 4 * NANO),
    ]
    assert [tuple(level) for level in first["asks"]] == [(91 * NANO, 2 * NANO)]
    assert (ticker["update_id"], ticker["exchange_time"], ticker["receive_time"]) == (9, 0, start + 1_000_000)
    assert [ticker[name] for name in ("bid_price", "bid_quantity", "ask_price", "ask_quantity")] == [
        90 * NANO,
        NANO,
        91 * NANO,
        2 * NANO,
    ]
    assert (trade["trade_id"], trade["aggressor"]) == (77, 2)
    assert (trade["price"], trade["quantity"]) == (91 * NANO, NANO // 2)
    assert trade["exchange_time"] % 1_000_000 == 0
    assert second["update_id"] == 12
    assert tuple(second["bids"][0]) == (89 * NANO + NANO // 2, 4 * NANO)
    assert tuple(second["asks"][0]) == (90 * NANO + NANO * 3 // 4, 3 * NANO)
    assert (gap["instrument_id"], gap["expected"], gap["found"]) == (7, 13, 20)
    assert (no_book["update_id"], no_book["bids"], no_book["asks"]) == (12, [], [])
    assert (end["kind"], end["event_time"]) == (LifecycleKind.END_OF_INPUT, recording.now)


def test_counters_follow(writer: _native.StreamWriter, tmp_path: Path) -> None:
    block = _native.Counters.create(str(tmp_path / "counters"), ["md"]).block(0)
    publisher = _native.MarketPublisher(writer, block)
    book = _native.L2Book()
    assert [publisher.depth(1, 0, 0, 1, book), publisher.trade(1, 0, 0, 1, 1, 5, 5)] == [1, 2]
    assert publisher.book_ticker(1, 0, 0, 2, 1, 1, 2, 1) == 3
    counted = block.snapshot()
    assert (counted["depths"], counted["trades"], counted["frames_out"]) == (1, 1, 3)
    assert 0 < counted["first_event_ns"] < counted["last_event_ns"]


def test_a_depth_holds_ten_levels_of_a_deeper_book(writer: _native.StreamWriter, tmp_path: Path) -> None:
    book = _native.L2Book()
    for price in range(1, 31):
        book.set(1, price, price)
        book.set(2, 100 + price, price)
    _native.MarketPublisher(writer).depth(1, 0, 0, 1, book)
    ((_, depth),) = frames(tmp_path)
    assert [level[0] for level in depth["bids"]] == list(range(30, 20, -1))
    assert [level[0] for level in depth["asks"]] == list(range(101, 111))


def test_pages_roll_under_it(writer: _native.StreamWriter, tmp_path: Path) -> None:
    publisher, book = _native.MarketPublisher(writer), _native.L2Book()
    book.set(1, 5, 5)
    assert [publisher.depth(1, 0, 0, number, book) for number in range(1000)] == list(range(1, 1001))
    assert writer.page_rolls > 4
    assert [depth["update_id"] for _, depth in frames(tmp_path)] == list(range(1000))


def test_what_cannot_be_published_is_an_error(writer: _native.StreamWriter, tmp_path: Path) -> None:
    publisher = _native.MarketPublisher(writer)
    with pytest.raises(ValueError, match="aggressor"):
        publisher.trade(1, 0, 0, 1, 3, 5, 5)
    with pytest.raises(TypeError):
        publisher.gap(-1, 1, 2)
    _native.Counters.create(str(tmp_path / "counters"), ["md"])
    read_only = _native.Counters.open(str(tmp_path / "counters")).block(0)
    with pytest.raises(TypeError, match="for reading"):
        _native.MarketPublisher(writer, read_only)
    writer.close()
    with pytest.raises(FrameTooLarge, match="closed"):
        publisher.gap(1, 1, 2)
