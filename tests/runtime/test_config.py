"""Topologies: what is read, what `auto` comes to, and what each mistake is answered with."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tapewire.runtime.config import BinanceFeedConfig, StrategyConfig, SyntheticFeedConfig, Topology
from tapewire.runtime.effective import resolve, warnings
from tapewire.runtime.errors import ConfigError
from tapewire.runtime.overrides import parse_value
from tapewire.runtime.policies import WaitSpec, parse_sched, parse_wait, resolve_wait
from tapewire.runtime.topology import bundled_topologies, load_topology

TOPOLOGY = """
[[instruments]]
symbol = "SIM"
tick = 0.01
lot = "0.001"

[processes.md]
role = "market_data"
feed = "synthetic"
interval_us = 300

[processes.td]
role = "trade_gateway"

[processes.ledger]
role = "ledger"

[processes.strategy]
role = "strategy"
strategy = "native:alternating"
"""

FOUR = frozenset(range(4))
MANY = frozenset(range(16))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(TOPOLOGY)
    return path


def problem(path: Path | str, *overrides: str, input_path: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_topology(str(path), overrides, input_path=input_path)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 2
    return str(caught.value)


def test_defaults(file: Path) -> None:
    topology = load_topology(str(file))
    assert topology.name == "mine"
    assert topology.run.page_bytes == 16 * 1024 * 1024
    assert topology.instruments[0].tick == 10_000_000
    assert isinstance(topology.feed, SyntheticFeedConfig)
    assert topology.feed.pace == "free"
    assert topology.feed.speed_factor == 1.0
    assert list(topology.processes) == ["md", "td", "ledger", "strategy"]
    strategy = topology.processes["strategy"]
    assert isinstance(strategy, StrategyConfig)
    assert strategy.params == {"every": 5, "quantity": "0.001"}


def test_streams_are_numbered_data_first(file: Path) -> None:
    streams = load_topology(str(file)).streams()
    assert [(stream.id, stream.name, stream.kind) for stream in streams] == [
        (1, "md", "data"),
        (2, "td", "data"),
        (3, "ledger", "data"),
        (4, "strategy", "data"),
        (5, "td.consumed", "consumed"),
        (6, "ledger.consumed", "consumed"),
        (7, "strategy.consumed", "consumed"),
    ]


@pytest.mark.parametrize("name", ["latency", "latency-python", "binance", "demo"])
def test_bundled_topologies(name: str, tmp_path: Path) -> None:
    assert name in bundled_topologies()
    overrides = [f"processes.{process}.cpu=any" for process in ("md", "td", "ledger", "strategy")]
    recording = tmp_path / "recording"
    recording.touch()
    topology = load_topology(name, overrides, input_path=str(recording) if name == "binance" else None)
    assert Topology.from_dict(json.loads(json.dumps(topology.to_dict()))) == topology
    processes = resolve(topology, MANY)
    assert all(process.wait.policy != "auto" for process in processes.values())
    assert warnings(topology, processes) == []


def test_recordings_at_full_speed_run_in_lockstep(tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    recording.touch()
    overrides = ["processes.strategy.cpu=any", "processes.md.speed=max"]
    topology = load_topology("binance", overrides, input_path=str(recording))
    assert isinstance(topology.feed, BinanceFeedConfig)
    assert topology.feed.speed_factor is None
    assert topology.feed.pace == "lockstep"
    assert topology.feed.input == str(recording)


def test_strategy_files_are_found_beside_the_topology(file: Path) -> None:
    (file.parent / "mine.py").write_text("class Mine:\n    pass\n")
    topology = load_topology(str(file), ["processes.strategy.strategy=mine.py:Mine"])
    strategy = topology.processes["strategy"]
    assert isinstance(strategy, StrategyConfig)
    assert strategy.strategy == f"{file.parent}/mine.py:Mine"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("processes.md.intervall_us=1", "did you mean 'interval_us'"),
        ("processes.md.interval_us=fast", 'processes.md.interval_us: expected int, got str "fast"'),
        ("processes.md.interval_us=0", "processes.md.interval_us: expected int >= 1, got int 0"),
        ("processes.md.arrivals=poison", "did you mean 'poisson'"),
        ("processes.md.start_price=1.005", "1.005 is not a whole multiple of 0.01"),
        ("processes.md.start_price=0.5", "less than 100 ticks"),
        ("processes.md.speed=fast", "not a speed"),
        ("processes.md.speed=3", '"1x", "10x" or "max"'),
        ("processes.md.wait=batch", "is for a process that waits for others"),
        ("processes.td.wait=sleep-spin", "is for a timed source"),
        ("processes.td.wait=hybird", "did you mean 'hybrid'"),
        ("processes.td.wait=yield 5ms", "takes no duration"),
        ("processes.td.sched=fifo", "fifo needs a priority"),
        ("processes.td.sched=fifo 10", "real-time throttling"),
        ("processes.td.nice=20", "expected int <= 19"),
        ("processes.td.cpu=9999", "CPU 9999 is not among those this process may use"),
        ("processes.td.cpu=all", 'a list of them or "any"'),
        ("processes.td.mlock=yes", 'expected bool, got str "yes"'),
        ("processes.td.interval_us=3", "unknown key for role trade_gateway"),
        ("processes.td.role=ledger", "no process has role trade_gateway"),
        ("processes.tf.cpu=0", "did you mean 'td'"),
        ("processes.strategy.strategy=native:alternate", "did you mean 'alternating'"),
        ("processes.strategy.strategy=nowhere.py:Mine", "no such file: nowhere.py"),
        ("processes.strategy.strategy=examples/alternating.py:Mine", "has no class 'Mine'"),
        ("processes.strategy.strategy=what", "not a strategy"),
        ("processes.strategy.params.evry=5", "did you mean 'every'"),
        ("processes.strategy.params.quantity=0.0005", "not a whole multiple of 0.001"),
        ("processes.strategy.max_position=0", "must be greater than 0"),
        ("run.latency=max", 'expected one of "median", "tail"'),
        ("run.page_bytes=70000", "multiple of 4096"),
        ("run.live_dir=/does/not/exist", "not a directory"),
        ("instruments.SIM.tick=0", "must be greater than 0"),
        ("instruments.SIM.lot=1e-12", "not a whole multiple"),
        ("instruments.DOGE.tick=1", "no instrument 'DOGE'"),
        ("instruments=[]", "no instruments"),
        ("instruments=3", "expected [[instruments]] tables"),
        ("processes.md=3", "expected a table"),
        ("nonsense", "is not key.path=value"),
        ("rum.latency=tail", "unknown table"),
    ],
)
def test_mistakes(file: Path, override: str, message: str) -> None:
    assert message in problem(file, override)


def test_a_mistake_is_placed_in_the_file_or_on_the_command_line(file: Path) -> None:
    assert problem(file, "processes.md.cpu=9999").startswith("--set: processes.md.cpu: ")
    file.write_text(TOPOLOGY.replace("interval_us = 300", 'interval_us = "300"'))
    assert problem(file).startswith(f"{file}: processes.md.interval_us: expected int, got str")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[processes.ledger]\n", "[processes.Ledger]\n", "not a process name"),
        ('role = "ledger"', 'role = "trade_gateway"', "td and ledger both have role trade_gateway"),
        ('role = "ledger"', "", "processes.ledger.role: missing"),
        ('role = "ledger"', 'role = "leger"', "did you mean 'ledger'"),
        ('[processes.ledger]\nrole = "ledger"', "", "no process has role ledger"),
        ('feed = "synthetic"', "", "processes.md.feed: missing"),
        ('feed = "synthetic"', 'feed = "binance"', "unknown key for the binance feed"),
        ('symbol = "SIM"', "", "instruments.1.symbol: missing"),
        ('symbol = "SIM"', 'symbol = "S M"', "not a symbol"),
        ("[[instruments]]", '[[instruments]]\nsymbol = "SIM"\n[[instruments]]', "SIM is listed twice"),
        ("[[instruments]]", "[[instruments", "not valid TOML"),
    ],
)
def test_mistakes_of_the_document(file: Path, old: str, new: str, message: str) -> None:
    assert old in TOPOLOGY
    file.write_text(TOPOLOGY.replace(old, new, 1))
    text = problem(file)
    assert message in text
    assert text.startswith(f"{file}: ")


def test_no_such_topology(tmp_path: Path) -> None:
    assert "did you mean 'latency'" in problem("latncy")
    assert problem(tmp_path / "x.toml").startswith(f"{tmp_path}/x.toml: no such topology file")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in problem(tmp_path / "binary.toml")


def test_input(tmp_path: Path, file: Path) -> None:
    anywhere = ["processes.strategy.cpu=any"]
    assert "give it with --input FILE" in problem("binance", *anywhere)
    assert problem("binance", *anywhere, input_path=str(tmp_path / "x.gz")).startswith(
        "--input: no such file"
    )
    assert problem("binance", *anywhere, input_path=str(tmp_path)).startswith("--input: not a file")
    assert "which reads no file" in problem(file, input_path="x.gz")


def test_a_cpu_outside_the_allowed_set_says_what_to_do(file: Path) -> None:
    os.sched_setaffinity(0, before := os.sched_getaffinity(0))
    one = min(before)
    try:
        os.sched_setaffinity(0, {one})
        text = problem(file, f"processes.strategy.cpu={one + 1}")
    finally:
        os.sched_setaffinity(0, before)
    assert f"CPU {one + 1} is not among those this process may use ({one})" in text
    assert f"use --set processes.strategy.cpu={one}" in text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("true", True),
        ("max", "max"),
        ('"3"', "3"),
        ("[0, 1]", [0, 1]),
        ("batch 50ms", "batch 50ms"),
        ("1x", "1x"),
        ("", ""),
        ("1\nother = 2", "1\nother = 2"),
    ],
)
def test_override_values(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_a_decimal_keeps_its_digits(file: Path) -> None:
    overrides = ["instruments.SIM.maker_fee=0.000000001", "instruments.1.tick=1e-2"]
    topology = load_topology(str(file), overrides)
    assert topology.instruments[0].maker_fee == 1
    assert topology.instruments[0].tick == 10_000_000


# ---- policies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "spec", "again"),
    [
        ("yield", WaitSpec(policy="yield"), "yield"),
        ("hybrid", WaitSpec(policy="hybrid", window_us=5000), "hybrid 5ms"),
        ("hybrid 200us", WaitSpec(policy="hybrid", window_us=200), "hybrid 200us"),
        ("batch", WaitSpec(policy="batch", batch_ms=50), "batch 50ms"),
        ("batch 1s", WaitSpec(policy="batch", batch_ms=1000), "batch 1000ms"),
        ("sleep-spin 50 us", WaitSpec(policy="sleep-spin", window_us=50), "sleep-spin 50us"),
    ],
)
def test_wait_texts(text: str, spec: WaitSpec, again: str) -> None:
    assert parse_wait(text) == spec
    assert str(spec) == again
    assert parse_wait(str(spec)) == spec


@pytest.mark.parametrize("text", ["", "batch 50", "batch 1500us", "hybrid 0ms", "hybrid -1ms", "spin spin"])
def test_no_wait_texts(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_wait(text)


@pytest.mark.parametrize("text", ["", "fifo 0", "fifo 100", "fifo x", "other 3", "rr 5"])
def test_no_sched_texts(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_sched(text)


@pytest.mark.parametrize(
    ("text", "role", "latency", "result"),
    [
        ("auto", "market_data", "median", "sleep-spin 70us"),
        ("auto", "strategy", "median", "hybrid 5ms"),
        ("auto", "trade_gateway", "median", "hybrid 5ms"),
        ("auto", "ledger", "median", "batch 50ms"),
        ("yield", "strategy", "median", "yield"),
        ("yield", "strategy", "tail", "park"),
        ("auto", "trade_gateway", "tail", "park"),
        ("auto", "ledger", "tail", "batch 50ms"),
        ("auto", "market_data", "tail", "sleep-spin 70us"),
        ("sleep-spin 20us", "market_data", "median", "sleep-spin 20us"),
    ],
)
def test_resolved_waits(text: str, role: str, latency: str, result: str) -> None:
    assert str(resolve_wait(parse_wait(text), role, latency=latency, spin_window_us=70)) == result


def test_the_tail_profile_keeps_pinned_cpus_awake(file: Path) -> None:
    topology = load_topology(str(file), ["run.latency=tail", "processes.strategy.cpu=0"])
    processes = resolve(topology, FOUR)
    assert [name for name, process in processes.items() if process.keeper] == ["strategy"]
    assert processes["strategy"].cpus == (0,)


def test_fifo_goes_with_what_blocks(file: Path) -> None:
    topology = load_topology(str(file), ["processes.td.sched=fifo 10", "processes.td.wait=park"])
    assert str(resolve(topology, FOUR)["td"].sched) == "fifo 10"


def test_sharing_a_cpu(file: Path) -> None:
    cpus = {"md": 0, "td": 0, "ledger": 0, "strategy": 1}
    pins = [f"processes.{name}.cpu={cpu}" for name, cpu in cpus.items()]
    topology = load_topology(str(file), pins, check=False)
    wide = resolve(topology, MANY)
    assert wide["md"].shared
    assert not wide["strategy"].shared
    assert wide["strategy"].helper_cpus == tuple(range(2, 16))
    narrow = resolve(topology, frozenset({0, 1}))
    assert narrow["strategy"].shared  # master and the rest of the machine have to be somewhere
    assert narrow["strategy"].helper_cpus == (0,)


def test_warnings(file: Path) -> None:
    topology = load_topology(str(file), ["processes.td.wait=spin", "processes.strategy.wait=hybrid 200us"])
    lines = warnings(topology, resolve(topology, FOUR))
    assert [line.partition(":")[0] for line in lines] == ["processes.td.wait", "processes.strategy.wait"]
