"""A recording through a whole run, as a user does it: accounted for, repeatable, refused when it is bad."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tapewire.journal import Journal

CLI = (sys.executable, "-m", "tapewire")
LINES = 1500
TOPOLOGY = """
[run]
page_bytes = 262144
interval_ms = 20

[[instruments]]
symbol = "BTCUSDT"
tick = "0.01"
lot = "0.00001"
maker_fee = "0.001"
taker_fee = "0.001"

[processes.md]
role = "market_data"
feed = "binance"
speed = "max"

[processes.td]
role = "trade_gateway"

[processes.ledger]
role = "ledger"

[processes.strategy]
role = "strategy"
strategy = "tapewire.examples.spread_quoting:SpreadQuoting"
max_position = "0.1"

[processes.strategy.params]
size = "0.01"
max_inventory = "0.05"
"""


class Market:
    """A book of a walking price, and the messages that would have told of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1_723_161_253_000_000_000
        self.mid = 6_000_000  # in ticks of 0.01
        self.update_id = 1000
        self.books: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.lines: list[str] = []
        self.walk()

    def walk(self) -> list[list[tuple[int, int]]]:
        """Move the price; the levels of each side that changed."""
        self.mid += self.random.randint(-3, 3)
        changed: list[list[tuple[int, int]]] = []
        for book, sign in zip(self.books, (-1, 1), strict=True):
            wanted = {self.mid + sign * level: self.random.randint(1, 500_000) for level in range(1, 15)}
            gone = {price: 0 for price in book if price not in wanted}
            changed.append(sorted({**gone, **wanted}.items()))
            book.clear()
            book.update(wanted)
        return changed

    def write(self, message: dict[str, Any]) -> None:
        self.now += self.random.randint(0, 20_000_000)
        self.lines.append(f"{self.now} {json.dumps(message)}")

    def stream(self, kind: str, **data: Any) -> None:
        self.write({"stream": f"btcusdt@{kind}", "data": {"s": "BTCUSDT", **data}})

    def update(self) -> None:
        bids, asks = self.walk()
        first, self.update_id = self.update_id + 1, self.update_id + self.random.randint(1, 9)
        ms = self.now // 1_000_000
        self.stream(
            "depth@100ms", e="depthUpdate", E=ms, U=first, u=self.update_id, b=texts(bids), a=texts(asks)
        )

    def snapshot(self) -> None:
        bids, asks = (texts(book.items()) for book in self.books)
        self.write({"lastUpdateId": self.update_id, "bids": bids, "asks": asks})

    def trade(self) -> None:
        price = f"{self.mid / 100:.8f}"
        self.stream("trade", e="trade", E=1, t=len(self.lines), p=price, q="0.01000000", T=1, m=True, M=True)

    def ticker(self) -> None:
        bid, ask = max(self.books[0].items()), min(self.books[1].items())
        (b, bq), (a, aq) = texts([bid, ask])
        self.stream("bookTicker", u=self.update_id, b=b, B=bq, a=a, A=aq)


def texts(levels: Any) -> list[list[str]]:
    return [[f"{price / 100:.8f}", f"{quantity / 100_000:.8f}"] for price, quantity in levels]


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """Two updates before the snapshot, then a market of all kinds of messages."""
    market = Market(seed=7)
    market.update()
    market.update()
    market.snapshot()
    while len(market.lines) < LINES:
        market.random.choice([market.update, market.trade, market.ticker])()
    return market.lines


def packed(lines: list[str]) -> bytes:
    return gzip.compress("\n".join(lines).encode() + b"\n", mtime=0)


class Bench:
    """A runs directory and a live directory of its own."""

    def __init__(self, directory: Path, live: Path) -> None:
        self.runs = directory / "runs"
        self.runs.mkdir()
        self.live = live
        self.topology = directory / "recorded.toml"
        self.topology.write_text(TOPOLOGY)

    def run(self, recording: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*CLI, "run", str(self.topology), "--input", str(recording), "--json"]
        return subprocess.run(
            [*command, "--set", f"run.live_dir={self.live}", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "TAPEWIRE_RUNS": str(self.runs)},
            check=False,
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    live = Path("/dev/shm") / f"tapewire-test-{uuid.uuid4().hex[:12]}"
    live.mkdir()
    try:
        yield Bench(tmp_path, live)
        left = [path.name for path in live.iterdir()]
        assert not left
    finally:
        if live.exists() and not any(live.iterdir()):
            live.rmdir()


def orders(run_dir: Path) -> list[tuple[Any, ...]]:
    """Everything the strategy and the venue wrote about orders, with what led to it; no clocks."""
    with Journal.open(run_dir).reader(
        ["strategy", "td"], types=["order_input", "order_report", "fill"]
    ) as reader:
        found = [(f.stream_id, f.seq, f.type, f.cause, f.root, f.root_type, f.payload) for f in reader]
    return sorted(found, key=lambda frame: frame[:2])


def test_every_line_is_accounted_for_and_two_runs_are_equal(
    bench: Bench, lines: list[str], tmp_path: Path
) -> None:
    recording = tmp_path / "day.gz"
    recording.write_bytes(packed(lines))
    results = []
    for name in ("first", "second"):
        done = bench.run(recording, "--name", name)
        assert done.returncode == 0, done.stderr
        account = json.loads(done.stdout)["input"]
        assert account == json.loads((bench.runs / name / "input.json").read_text())
        assert account["lines"] == LINES
        assert sum(account["published"].values()) + sum(account["skipped"].values()) == LINES
        assert account["skipped"] == {"older than the snapshot": 2}
        assert account["end_of_input"]
        assert (account["gaps"], account["crossed"], account["error"]) == (0, 0, "")
        with Journal.open(bench.runs / name).reader(["md"]) as reader:
            market = [(frame.type, frame.payload) for frame in reader]
        assert len(market) == LINES - 2 + 1  # and the end of the input
        results.append((account, market, orders(bench.runs / name)))
    assert results[0] == results[1]
    assert any(frame[2] == 6 for frame in results[0][2])  # some were filled


def test_without_lockstep_every_frame_arrives_too(bench: Bench, lines: list[str], tmp_path: Path) -> None:
    recording = tmp_path / "day"
    recording.write_text("\n".join(lines))
    done = bench.run(recording, "--name", "free", "--set", "processes.md.pace=free")
    assert done.returncode == 0, done.stderr
    processes = json.loads(done.stdout)["processes"]
    assert processes["md"]["frames_out"] == LINES - 2 + 1
    assert processes["md"]["depths"] == json.loads(done.stdout)["input"]["published"]["depth_update"] + 1
    with Journal.open(bench.runs / "free").reader(["md"]) as reader:
        assert [frame.seq for frame in reader] == list(range(1, LINES))


def test_a_stopped_replay_says_so(bench: Bench, lines: list[str], tmp_path: Path) -> None:
    recording = tmp_path / "day.gz"
    recording.write_bytes(packed(lines))
    done = bench.run(recording, "--name", "slow", "--set", "processes.md.speed=1x", "--for", "1s")
    assert done.returncode == 0, done.stderr
    account = json.loads(done.stdout)["input"]
    assert not account["end_of_input"]
    assert 0 < account["lines"] < LINES
    assert account["error"] == ""
    buckets = sum(account["published"].values()) + sum(account["skipped"].values()) + account["buffered"]
    assert buckets == account["lines"]


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda lines: None, "no such file"),
        (lambda lines: packed(lines)[: len(packed(lines)) // 2], "gzip data ends too early"),
        (lambda lines: packed([*lines[:9], lines[9][:-5], *lines[10:]]), "line 10: malformed JSON"),
        (lambda lines: packed([*lines[:9], lines[10], lines[9], *lines[11:]]), "line 11: out-of-order"),
        (
            lambda lines: packed([line.replace("BTC", "ETH").replace("btc", "eth") for line in lines]),
            "BTCUSDT",
        ),
    ],
)
def test_bad_input_leaves_nothing(
    bench: Bench, lines: list[str], tmp_path: Path, spoil: Any, problem: str
) -> None:
    recording = tmp_path / "bad.gz"
    content = spoil(lines)
    if content is not None:
        recording.write_bytes(content)
    done = bench.run(recording)
    assert done.returncode == 2
    (message,) = done.stderr.splitlines()
    assert message.startswith("error: ")
    assert "bad.gz" in message
    assert problem in message
    assert "Traceback" not in done.stdout
    assert list(bench.runs.iterdir()) == []
