"""Pacing of recordings, on a clock of the test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tapewire.runtime.instrument import Instrument
from tapewire.runtime.market.binance import BinanceRecording
from tapewire.runtime.market.pace import Pacer
from tapewire.runtime.market.replay_recording import play

MS = 1_000_000
BTC = Instrument(id=7, symbol="BTCUSDT", tick=10_000_000, lot=10_000)


class Clock:
    """Moves only when slept on; stops the run at `stop_at`."""

    def __init__(self, stop_at: int = 2**62) -> None:
        self.now = 5_000
        self.stop_at = stop_at
        self.sleeps: list[float] = []
        self.beats = 0

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += round(seconds * 1e9)

    def beat(self) -> None:
        self.beats += 1

    def pacer(self, factor: float | None) -> Pacer:
        return Pacer(
            factor,
            should_stop=lambda: self.now >= self.stop_at,
            while_waiting=self.beat,
            now_ns=lambda: self.now,
            sleep=self.sleep,
        )


class Frames:
    """A publisher and a lockstep that remember what they were given."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock
        self.frames: list[tuple[Any, ...]] = []
        self.waited: list[int] = []
        self.give_up_at = 0

    def _add(self, *frame: Any) -> int:
        self.frames.append(frame if self.clock is None else (frame[0], self.clock.now))
        return len(self.frames)

    def depth(self, instrument: int, exchange: int, receive: int, update_id: int, book: Any) -> int:
        return self._add("depth", update_id, book.best())

    def book_ticker(self, *fields: int) -> int:
        return self._add("book_ticker", *fields)

    def trade(self, *fields: int) -> int:
        return self._add("trade", *fields)

    def gap(self, *fields: int) -> int:
        return self._add("gap", *fields)

    def wait(self, seq: int) -> bool:
        self.waited.append(seq)
        return seq != self.give_up_at


@pytest.mark.parametrize(("factor", "apart"), [(1.0, 100 * MS), (4.0, 25 * MS), (0.5, 200 * MS)])
def test_events_are_as_far_apart_as_they_were(factor: float, apart: int) -> None:
    clock = Clock()
    pacer = clock.pacer(factor)
    start = clock.now
    for number in range(5):
        assert pacer.wait_until_due(10**18 + number * 100 * MS)
        assert clock.now - start == pytest.approx(number * apart, abs=10)
    assert max(clock.sleeps) <= 0.02
    assert clock.beats == len(clock.sleeps)
    assert pacer.late == 0


def test_a_late_event_delays_none_after_it() -> None:
    clock = Clock()
    pacer = clock.pacer(1.0)
    pacer.wait_until_due(10**18)
    clock.now += 50 * MS
    pacer.wait_until_due(10**18 + 10 * MS)
    assert pacer.late == 1
    pacer.wait_until_due(10**18 + 100 * MS)
    assert clock.now == 5_000 + 100 * MS


def test_max_never_sleeps() -> None:
    clock = Clock()
    pacer = clock.pacer(None)
    assert all(pacer.wait_until_due(second * 10**9) for second in range(100))
    assert not clock.sleeps


def test_a_stop_ends_a_wait() -> None:
    clock = Clock(stop_at=5_000 + 100 * MS)
    pacer = clock.pacer(1.0)
    assert pacer.wait_until_due(10**18)
    assert not pacer.wait_until_due(10**18 + 3600 * 10**9)
    assert clock.now <= clock.stop_at + 20 * MS
    assert not clock.pacer(None).wait_until_due(1)


def test_a_factor_must_be_above_zero() -> None:
    with pytest.raises(ValueError, match="above zero"):
        Pacer(0.0, should_stop=lambda: False)


def small(recording: Any, tmp_path: Path) -> BinanceRecording:
    recording.snapshot(8, [("90", "1")], [("91", "2")]).ticker(8, "90", "1", "91", "2")
    recording.trade(1, "91", "0.5").update(10, 10)
    return BinanceRecording(recording.write(tmp_path / "day"), [BTC])


def test_every_frame_is_published_and_waited_for(recording: Any, tmp_path: Path) -> None:
    frames, beats = Frames(), Clock()
    reader = small(recording, tmp_path)
    assert play(reader, frames, Clock().pacer(None), frames, beat=beats.beat, beat_events=2)
    received = recording.now - 2 * MS
    assert frames.frames == [
        ("depth", 8, ((90 * 10**9, 10**9), (91 * 10**9, 2 * 10**9))),
        ("book_ticker", 7, 0, received, 8, 90 * 10**9, 10**9, 91 * 10**9, 2 * 10**9),
        ("trade", 7, received // MS * MS, received + MS, 1, 1, 91 * 10**9, 5 * 10**8),
        ("gap", 7, 9, 10),
        ("depth", 8, (None, None)),
    ]
    assert frames.waited == [1, 2, 3, 5]
    assert beats.beats == 2
    assert reader.accounting.complete


def test_at_1x_frames_leave_when_their_lines_came(recording: Any, tmp_path: Path) -> None:
    clock = Clock()
    frames = Frames(clock)
    assert play(small(recording, tmp_path), frames, clock.pacer(1.0))
    assert [time - 5_000 for _, time in frames.frames] == pytest.approx(
        [0, MS, 2 * MS, 3 * MS, 3 * MS], abs=10
    )


def test_a_stop_leaves_a_true_account(recording: Any, tmp_path: Path) -> None:
    clock = Clock(stop_at=5_000 + 1_500_000)
    frames = Frames()
    reader = small(recording, tmp_path)
    assert not play(reader, frames, clock.pacer(1.0))
    accounting = reader.settle()
    assert len(frames.frames) == 2
    assert accounting.published == {"depth_snapshot": 1, "book_ticker": 1, "trade": 0}
    assert accounting.skipped == {"stopped before it was due": 1}
    assert accounting.accounted == accounting.lines == 3
    assert not accounting.complete
    assert "BTCUSDT" in accounting.last_touch


def test_lockstep_given_up_ends_the_play(recording: Any, tmp_path: Path) -> None:
    frames = Frames()
    frames.give_up_at = 2
    assert not play(small(recording, tmp_path), frames, Clock().pacer(None), frames)
    assert frames.waited == [1, 2]
