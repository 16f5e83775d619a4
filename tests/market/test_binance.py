"""Binance recordings: the book rule, the accounting of every line, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from tapewire.runtime.errors import InputError
from tapewire.runtime.instrument import Instrument
from tapewire.runtime.market.accounting import Accounting, accounting_lines
from tapewire.runtime.market.binance import BinanceRecording, check_recording
from tapewire.runtime.market.market_events import BookTickerEvent, DepthEvent, GapEvent, TradeEvent

NANO = 10**9
BTC = Instrument(id=7, symbol="BTCUSDT", tick=10_000_000, lot=10_000)
ETH = Instrument(id=8, symbol="ETHUSDT", tick=10_000_000, lot=100_000)


def play(recording: Any, path: Path, *instruments: Instrument) -> tuple[list[tuple[Any, ...]], Accounting]:
    """Events as tuples (a depth with its touch, which the live book would not keep), and the accounting."""
    seen: list[tuple[Any, ...]] = []
    reader = BinanceRecording(recording.write(path), instruments or (BTC,))
    for event in reader:
        if isinstance(event, DepthEvent):
            bid, ask = event.book.best()
            seen.append(
                ("depth", event.line, event.update_id, bid and bid[0] // NANO, ask and ask[0] // NANO)
            )
        elif isinstance(event, GapEvent):
            seen.append(("gap", event.line, event.expected, event.found))
        else:
            seen.append((event.kind, event.line))
    accounting = reader.accounting
    assert accounting.complete
    assert accounting.lines == len(recording.lines)
    return seen, accounting


@pytest.mark.parametrize("name", ["day.gz", "day.txt"])
def test_updates_wait_for_the_snapshot_and_follow_it(recording: Any, tmp_path: Path, name: str) -> None:
    recording.update(1, 4, [("90", "1")])  # older than the snapshot
    recording.update(5, 5, [("91", "1")])
    recording.ticker(5, "100", "1", "101", "2")
    recording.update(6, 9, [("99", "3")])  # bridges it: 6 <= 7 + 1 <= 9
    recording.trade(1, "100.5", "0.25")
    recording.snapshot(7, [("100", "1"), ("98", "1")], [("101", "1")])
    recording.update(10, 10, [("100", "0")], [("101", "0"), ("102", "5")])
    events, accounting = play(recording, tmp_path / name)
    assert events == [
        ("book_ticker", 3),
        ("trade", 5),
        ("depth", 6, 7, 100, 101),
        ("depth", 4, 9, 100, 101),
        ("depth", 7, 10, 99, 102),
    ]
    assert accounting.published == {"book_ticker": 1, "trade": 1, "depth_snapshot": 1, "depth_update": 2}
    assert accounting.skipped == {"older than the snapshot": 2}
    assert (accounting.gaps, accounting.crossed, accounting.buffered) == (0, 0, 0)
    assert accounting.last_touch["BTCUSDT"].describe(BTC) == "99.00 × 3.00000 / 102.00 × 5.00000"
    assert accounting.first_receive_time < accounting.last_receive_time == recording.now


def test_every_field_of_an_event(recording: Any, tmp_path: Path) -> None:
    recording.ticker(5, "61837.63000000", "3.78826000", "61837.64000000", "1.54698000")
    recording.trade(9, "0.01000000", "0.02000000", maker=True)
    recording.trade(10, "0.01000000", "0.02000000", maker=False)
    recording.snapshot(7, [("100", "1")], [])
    first = recording.now - 3_000_000
    ticker, sold, bought, depth = list(BinanceRecording(recording.write(tmp_path / "day"), [BTC]))
    assert ticker == BookTickerEvent(
        1, 7, first, 5, 61837_630_000_000, 3_788_260_000, 61837_640_000_000, 1_546_980_000
    )
    assert ticker.exchange_time == 0
    ms = (first + 1_000_000) // 1_000_000 - 1  # the maker stamps the trade a millisecond before it arrives
    assert sold == TradeEvent(2, 7, ms * 1_000_000, first + 1_000_000, 9, 2, 10_000_000, 20_000_000)
    assert isinstance(bought, TradeEvent)
    assert bought.aggressor == 1
    assert isinstance(depth, DepthEvent)
    assert (depth.exchange_time, depth.receive_time, depth.update_id) == (0, recording.now, 7)


def test_waiting_updates_carry_the_time_at_which_the_book_was_known(recording: Any, tmp_path: Path) -> None:
    recording.update(5, 8, [("99", "3")]).snapshot(5, [("98", "1")])
    times = [event.receive_time for event in BinanceRecording(recording.write(tmp_path / "day"), [BTC])]
    assert times == [recording.now, recording.now]


def test_a_gap_makes_the_book_invalid_until_the_next_snapshot(recording: Any, tmp_path: Path) -> None:
    recording.snapshot(10, [("100", "1")], [("101", "1")])
    recording.update(11, 12, [("99", "1")])
    recording.update(15, 16, [("98", "1")])  # 13 and 14 are missing
    recording.update(17, 18, [("97", "1")])
    recording.snapshot(14, [("90", "1")], [("91", "1")])  # restarts: 15 and later follow it
    recording.update(19, 19, [("89", "1")])
    events, accounting = play(recording, tmp_path / "day")
    assert events == [
        ("depth", 1, 10, 100, 101),
        ("depth", 2, 12, 100, 101),
        ("gap", 3, 13, 15),
        ("depth", 5, 14, 90, 91),
        ("depth", 3, 16, 98, 91),
        ("depth", 4, 18, 98, 91),
        ("depth", 6, 19, 98, 91),
    ]
    assert accounting.gaps == 1
    assert accounting.crossed == 2 + 1  # 98 over 91, three times
    assert accounting.published["depth_update"] == 4


def test_without_another_snapshot_the_updates_after_a_gap_are_skipped(recording: Any, tmp_path: Path) -> None:
    recording.snapshot(10, [("100", "1")]).update(12, 13).update(14, 15)
    events, accounting = play(recording, tmp_path / "day")
    assert events == [("depth", 1, 10, 100, None), ("gap", 2, 11, 12)]
    assert accounting.skipped == {"no snapshot followed": 2}
    assert accounting.last_touch == {}


def test_a_gap_among_waiting_updates_is_found_when_the_snapshot_comes(recording: Any, tmp_path: Path) -> None:
    recording.update(10, 12, [("99", "1")]).update(14, 15, [("98", "1")]).snapshot(10, [("90", "1")])
    recording.snapshot(15, [("80", "1")])
    events, accounting = play(recording, tmp_path / "day")
    assert events == [
        ("depth", 3, 10, 90, None),
        ("depth", 1, 12, 99, None),
        ("gap", 2, 13, 14),
        ("depth", 4, 15, 80, None),
    ]
    assert accounting.skipped == {"older than the snapshot": 1}


def test_a_snapshot_before_the_first_waiting_update_is_too_old(recording: Any, tmp_path: Path) -> None:
    recording.update(10, 12, [("99", "1")]).snapshot(8, [("90", "1")]).snapshot(9, [("91", "1")])
    events, accounting = play(recording, tmp_path / "day")
    assert events == [("depth", 3, 9, 91, None), ("depth", 1, 12, 99, None)]
    assert accounting.skipped == {"snapshot older than the buffered updates": 1}


def test_a_first_update_that_does_not_reach_the_snapshot_is_a_gap(recording: Any, tmp_path: Path) -> None:
    recording.snapshot(8, [("90", "1")]).update(6, 8).update(10, 12)
    events, accounting = play(recording, tmp_path / "day")
    assert events == [("depth", 1, 8, 90, None), ("gap", 3, 9, 10)]
    assert accounting.skipped == {"older than the snapshot": 1, "no snapshot followed": 1}


def test_a_later_snapshot_restarts_the_book(recording: Any, tmp_path: Path) -> None:
    recording.snapshot(8, [("90", "1"), ("89", "1")]).update(9, 9, [("91", "1")])
    recording.snapshot(20, [("50", "1")]).update(10, 20, [("91", "2")]).update(21, 22, [("51", "1")])
    recording.snapshot(21, [("40", "1")])  # older than the book, which brings nothing
    events, accounting = play(recording, tmp_path / "day")
    assert events == [
        ("depth", 1, 8, 90, None),
        ("depth", 2, 9, 91, None),
        ("depth", 3, 20, 50, None),
        ("depth", 5, 22, 51, None),
    ]
    assert accounting.skipped == {"older than the snapshot": 1, "snapshot older than the book": 1}


def test_repeated_updates_are_dropped_and_overlapping_ones_applied(recording: Any, tmp_path: Path) -> None:
    recording.snapshot(8, [("90", "1")]).update(9, 12, [("91", "1")]).update(9, 12, [("91", "1")])
    recording.update(11, 14, [("92", "1")]).update(15, 15)
    events, accounting = play(recording, tmp_path / "day")
    assert [event[2] for event in events] == [8, 12, 14, 15]
    assert accounting.skipped == {"already in the book": 1}
    assert (accounting.gaps, accounting.overlaps) == (0, 1)


def test_waiting_updates_are_bounded(recording: Any, tmp_path: Path) -> None:
    for number in range(3010):
        recording.update(number, number)
    recording.snapshot(3000, [("1", "1")])
    events, accounting = play(recording, tmp_path / "day.gz")
    assert accounting.skipped == {"waited too long for a snapshot": 10, "older than the snapshot": 2991}
    assert [event[2] for event in events] == list(range(3000, 3010))


def test_what_is_not_used_is_skipped_with_its_reason(recording: Any, tmp_path: Path) -> None:
    recording.trade(1, "1", "1")
    recording.stream("aggTrade", {"e": "aggTrade"})
    recording.stream("depth20@100ms", {"lastUpdateId": 1, "bids": [], "asks": []})
    recording.stream("trade", {"e": "trade", "s": "ETHUSDT"}, symbol="ETHUSDT")
    recording.stream("kline_1m", {}).stream("aggTrade", {"e": "aggTrade"})
    recording.json({"result": None, "id": 1})
    recording.snapshot(1)
    _, accounting = play(recording, tmp_path / "day")
    assert accounting.published == {"trade": 1}
    assert accounting.skipped == {
        "stream kind aggTrade not used": 2,
        "stream kind depth20@100ms not used": 1,
        "stream kind kline_1m not used": 1,
        "symbol ETHUSDT not among the instruments": 1,
        "neither a stream message nor a snapshot": 1,
        "snapshot names no symbol and several may be meant": 1,
    }


def test_two_instruments_keep_two_books(recording: Any, tmp_path: Path) -> None:
    recording.update(1, 3, [("99", "1")])
    recording.snapshot(2, [("98", "1")])  # ETHUSDT has no updates yet, so it is BTCUSDT's
    recording.symbol = "ETHUSDT"
    recording.trade(1, "5", "5").update(501, 502)
    recording.snapshot(502, [("1", "1")])  # now it may be of either
    events, accounting = play(recording, tmp_path / "day", BTC, ETH)
    assert events == [("depth", 2, 2, 98, None), ("depth", 1, 3, 99, None), ("trade", 3)]
    assert accounting.skipped == {
        "snapshot names no symbol and several may be meant": 1,
        "no snapshot followed": 1,
    }
    assert list(accounting.last_touch) == ["BTCUSDT"]


def refuse(path: Path, *instruments: Instrument) -> str:
    with pytest.raises(InputError) as caught:
        check_recording(path, instruments or (BTC,))
    assert caught.value.exit_status == 2
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'1723161254000000000 {"stream":"btcusdt@trade","data":{"e":"tr', "malformed JSON"),
        (b"1723161254000000000 not json", "malformed JSON"),
        (b"1723161254000000000 ", "malformed JSON"),
        (b'1723161254000000000 {"stream":"\xff"}', "malformed JSON"),
        (b"1723161254000000000 [1]", "not a message of the documented type"),
        (b'1723161254000000000 {"stream":"btcusdt@trade","data":{}}', "not a message of the documented type"),
        (b'1723161254000000000 {"stream":"btcusdt@trade"}', "malformed JSON"),
        (b'{"stream":"btcusdt@trade","data":{}}', "receive time"),
        (b"", "receive time"),
        (b"17231612540000000000 {}", "receive time"),
        (b"1_723_161_254 {}", "receive time"),
        (b"9999999999999999999 {}", "receive time"),
        (b"1723161253000000000 {}", "out-of-order recording"),
    ],
)
def test_a_bad_line_is_named(recording: Any, tmp_path: Path, line: bytes, problem: str) -> None:
    recording.trade(1, "1", "1").raw(line).trade(2, "1", "1")
    message = refuse(recording.write(tmp_path / "day"))
    assert "line 2: " in message
    assert problem in message


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (lambda r: r.ticker(1, "1", "1", "1x", "1"), '"1x": not a plain decimal'),
        (lambda r: r.ticker(1, "1", "-1", "1", "1"), "is negative"),
        (lambda r: r.trade(1, "1", "0.0000000001"), "more decimal places"),
        (lambda r: r.trade(1, "1e3", "1"), '"1e3"'),
        (lambda r: r.snapshot(1, [("0", "1")]), 'price "0"'),
        (lambda r: r.snapshot(0).update(1, 1, [("1", "?")]), '"?"'),
        (lambda r: r.update(2, 1), "run backwards"),
        (lambda r: r.update(-1, 1), "not a message of the documented type"),
        (
            lambda r: r.stream("trade", {"s": "X", "t": 1, "p": "1", "q": "1", "T": 1, "m": True}),
            "data of symbol X",
        ),
    ],
)
def test_a_bad_value_is_named(recording: Any, tmp_path: Path, bad: Any, problem: str) -> None:
    bad(recording)
    message = refuse(recording.write(tmp_path / "day"))
    assert f"line {len(recording.lines)}: " in message
    assert problem in message


def test_a_bad_update_that_waited_is_named_by_its_own_line(recording: Any, tmp_path: Path) -> None:
    recording.update(1, 3, [("1", "1")]).update(4, 4, [("1", "bad")]).snapshot(1)
    assert 'line 2: quantity "bad"' in refuse(recording.write(tmp_path / "day"))


def test_truncated_and_damaged_gzip(recording: Any, tmp_path: Path) -> None:
    for number in range(2000):
        recording.trade(number, str(number * number), "1")
    whole = recording.write(tmp_path / "day.gz").read_bytes()
    path = tmp_path / "cut.gz"
    path.write_bytes(whole[: len(whole) // 2])
    assert "the gzip data ends too early" in (message := refuse(path))
    assert "line " in message
    path.write_bytes(whole[:-8] + b"\0" * 8)
    assert "the gzip data is damaged" in refuse(path)
    middle = bytearray(whole)
    middle[len(whole) // 2 :: 7] = bytes(len(middle[len(whole) // 2 :: 7]))
    path.write_bytes(middle)
    refuse(path)


def test_files_that_are_no_recordings(tmp_path: Path) -> None:
    assert "no such file" in refuse(tmp_path / "missing.gz")
    assert "cannot be read" in refuse(tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    assert "is empty" in refuse(tmp_path / "empty")
    (tmp_path / "huge").write_bytes(b"x" * ((1 << 24) + (1 << 19)))
    assert "without a newline" in refuse(tmp_path / "huge")


def test_an_empty_gzip_and_a_recording_of_another_symbol(recording: Any, tmp_path: Path) -> None:
    path = tmp_path / "none.gz"
    path.write_bytes(gzip.compress(b""))
    assert "no line is about BTCUSDT" in refuse(path)
    message = refuse(recording.trade(1, "1", "1").write(tmp_path / "day"), ETH)
    assert "no line is about ETHUSDT — its symbols are BTCUSDT" in message


def test_the_last_line_needs_no_newline(recording: Any, tmp_path: Path) -> None:
    recording.trade(1, "1", "1").trade(2, "1", "1")
    path = tmp_path / "day"
    path.write_bytes(recording.content.rstrip(b"\n"))
    assert check_recording(path, [BTC]).published == {"trade": 2}


def test_the_account_as_a_person_reads_it(recording: Any, tmp_path: Path) -> None:
    recording.update(1, 1).snapshot(1, [("100", "1")], [("101", "1.5")]).trade(1, "1", "1").update(2, 3)
    _, accounting = play(recording, tmp_path / "day")
    assert accounting_lines(accounting, [BTC]) == [
        "4 lines accounted for: 0 book tickers, 1 trades, 1 diffs applied, 1 snapshots, "
        "1 skipped: older than the snapshot; 0 gaps, 0 crossed",
        "last touch of BTCUSDT: 100.00 × 1.00000 / 101.00 × 1.50000",
    ]
    accounting.lines += 1
    accounting.error = "day: line 5: malformed JSON"
    first, _, last = accounting_lines(accounting, [BTC])
    assert first.startswith("4 of 5 lines accounted for")
    assert last == "ended by an error: day: line 5: malformed JSON"
